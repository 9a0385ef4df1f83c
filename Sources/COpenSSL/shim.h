#pragma once
// OpenSSL 3 declares much of its interface as macros, which Swift cannot see. Each wrapper below
// is one such macro under the name shim_X, with plain C types, and does nothing else.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <openssl/x509_vfy.h>
#include <openssl/asn1.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/bn.h>
#include <openssl/rand.h>

static inline long shim_SSL_set_tlsext_host_name(SSL *ssl, const char *name) {
    return SSL_set_tlsext_host_name(ssl, name);
}
static inline int shim_SSL_CTX_set_min_proto_version(SSL_CTX *ctx, int version) {
    return (int)SSL_CTX_set_min_proto_version(ctx, version);
}
static inline void shim_SSL_CTX_set_write_modes(SSL_CTX *ctx) {
    // The output buffer of a stream moves between attempts, and a short write is progress.
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}
static inline void shim_SSL_CTX_no_session_cache(SSL_CTX *ctx) {
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
}
static inline void shim_SSL_CTX_set_safe_options(SSL_CTX *ctx) {
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
}
static inline long shim_SSL_CTX_add1_chain_cert(SSL_CTX *ctx, X509 *certificate) {
    return SSL_CTX_add1_chain_cert(ctx, certificate);
}
static inline X509 *shim_SSL_get1_peer_certificate(const SSL *ssl) {
    return SSL_get1_peer_certificate(ssl);
}
static inline long shim_BIO_get_mem_data(BIO *bio, char **data) {
    return BIO_get_mem_data(bio, data);
}
static inline EVP_PKEY *shim_EVP_EC_gen_P256(void) {
    return EVP_EC_gen("P-256");
}
static inline int shim_sk_X509_num(const STACK_OF(X509) *stack) {
    return sk_X509_num(stack);
}
static inline X509 *shim_sk_X509_value(const STACK_OF(X509) *stack, int index) {
    return sk_X509_value(stack, index);
}
static inline void shim_sk_X509_pop_free(STACK_OF(X509) *stack) {
    sk_X509_pop_free(stack, X509_free);
}
static inline int shim_sk_ASN1_TYPE_num(const ASN1_SEQUENCE_ANY *sequence) {
    return sk_ASN1_TYPE_num(sequence);
}
// The element as a UTF8String; NULL where it has another type.
static inline const ASN1_STRING *shim_sk_ASN1_TYPE_get0_UTF8String(const ASN1_SEQUENCE_ANY *sequence, int index) {
    const ASN1_TYPE *element = sk_ASN1_TYPE_value(sequence, index);
    return ASN1_TYPE_get(element) == V_ASN1_UTF8STRING ? element->value.utf8string : NULL;
}
static inline void shim_sk_ASN1_TYPE_pop_free(ASN1_SEQUENCE_ANY *sequence) {
    sk_ASN1_TYPE_pop_free(sequence, ASN1_TYPE_free);
}
static inline int shim_ERR_GET_REASON(unsigned long code) { return ERR_GET_REASON(code); }
