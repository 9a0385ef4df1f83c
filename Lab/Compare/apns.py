"""aioapns with the address and the credentials of the simulator, for the workers of the comparison."""

import os
import ssl

from aioapns import APNs, NotificationRequest, PushType
from aioapns.connection import APNsProductionClientProtocol

# aioapns knows only Apple's servers.
APNsProductionClientProtocol.APNS_SERVER = "localhost"
APNsProductionClientProtocol.APNS_PORT = int(os.environ.get("APNS_PORT", "0"))
CREDENTIALS = os.environ["CREDENTIALS"]


def client():
    """A client with as many connections as gaplessd has. With a certificate, the server allows 1,000 streams at once."""
    pem = f"{CREDENTIALS}/both.pem"
    return APNs(
        client_cert=pem, topic="com.example.app", max_connections=2,
        ssl_context=ssl.create_default_context(cafile=f"{CREDENTIALS}/ca.pem"))


def request(job):
    return NotificationRequest(device_token=job["token"], message=job["data"], push_type=PushType.ALERT)


def is_temporary(status):
    return status == "429" or status.startswith("5")
