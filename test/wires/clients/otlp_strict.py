"""Parses requests of OTLP in JSON, one in each line of stdin, strictly by OpenTelemetry's own definitions. Prints what was read."""

import base64
import json
import sys

from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def with_bytes(value):
    """OTLP writes ids in hexadecimal, where Protobuf's JSON has Base64."""
    if isinstance(value, list):
        return [with_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {k: base64.b64encode(bytes.fromhex(v)).decode() if k in ids else with_bytes(v) for k, v in value.items()}


for line in sys.stdin:
    sent = json.loads(line)
    kind = ExportTraceServiceRequest if "resourceSpans" in sent else ExportMetricsServiceRequest
    # Unknown members and wrong types are errors.
    read = ParseDict(with_bytes(sent), kind(), ignore_unknown_fields=False)
    for resource in getattr(read, "resource_spans", []):
        for span in resource.scope_spans[0].spans:
            assert len(span.trace_id) == 16 and len(span.span_id) == 8, span
            assert len(span.parent_span_id) in (0, 8), span
            assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano, span
    print(json.dumps(MessageToDict(read)))
