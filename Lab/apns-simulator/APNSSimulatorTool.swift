import ArgumentParser

@main
struct APNSSimulatorTool: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns-simulator",
        abstract: "Apple's push service on your own machine: real TLS and HTTP/2, Apple's rules, your script.",
        discussion: """
            Point any APNs client at it instead of api.push.apple.com. It judges each request as APNs does, answers with \
            Apple's statuses and reasons, and can be told to fail in every way that APNs fails: rejections, dead tokens, \
            slowness, silence, GOAWAY, connections cut before or after a push was accepted. It delivers nothing.

            EXAMPLES
              Serve, with credentials made in ./credentials when they are missing:
                apns-simulator --port 2197 --credentials credentials

              Push to it with curl:
                curl --http2 --cacert credentials/ca.pem \\
                  -H "authorization: bearer $(apns-simulator provider-token credentials)" \\
                  -H "apns-topic: com.example.app" -H "apns-push-type: alert" \\
                  -d '{"aps":{"alert":"Hello"}}' https://localhost:2197/3/device/00aa11bb

              One push in fifty fails, one token in a hundred is dead:
                apns-simulator --port 2197 --credentials credentials \\
                  --fail 503:2% --dead 1% --latency 20ms..40ms

              Tokens that begin with dead fail twice and are accepted then:
                apns-simulator --port 2197 --credentials credentials \\
                  --token dead=503,503,200
            """,
        subcommands: [Serve.self, MakeCredentials.self, MakeProviderToken.self],
        defaultSubcommand: Serve.self)
}
