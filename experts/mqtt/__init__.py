"""Sensors over MQTT; needs the extra `mqtt`."""

from tvbandits.experts.mqtt.link import TLS, Address
from tvbandits.experts.mqtt.station import MQTTStation
from tvbandits.experts.mqtt.transport import MQTTTransport

__all__ = ["TLS", "Address", "MQTTStation", "MQTTTransport"]
