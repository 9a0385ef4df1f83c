import ArgumentParser

@main
struct APNSSimulatorTool: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns-simulator",
        abstract: "Simulates Apple's push service: real TLS and HTTP/2, Apple's rules, and scripted faults.",
        discussion: """
            Any APNs client can connect to it instead of api.push.apple.com. It validates each request as APNs does, answers \
            with Apple's statuses and reasons, and fails on demand as APNs does: rejections, unregistered tokens, delays, \
            silence, GOAWAY, connections cut before or after a push was accepted. It delivers nothing.

            EXAMPLES
              Serve, with credentials in ./credentials, which are created if missing:
                apns-simulator --port 2197 --credentials credentials

              Push to it with curl:
                curl --http2 --cacert credentials/ca.pem \\
                  -H "authorization: bearer $(apns-simulator provider-token credentials)" \\
                  -H "apns-topic: com.example.app" -H "apns-push-type: alert" \\
                  -d '{"aps":{"alert":"Hello"}}' https://localhost:2197/3/device/00aa11bb

              2 % of the pushes fail, 1 % of the tokens are unregistered:
                apns-simulator --port 2197 --credentials credentials \\
                  --fail 503:2% --dead 1% --latency 20ms..40ms

              Tokens with the prefix dead fail twice and are then accepted:
                apns-simulator --port 2197 --credentials credentials \\
                  --token dead=503,503,200
            """,
        subcommands: [Serve.self, MakeCredentials.self, MakeProviderToken.self],
        defaultSubcommand: Serve.self)
}
