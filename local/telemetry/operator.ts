import type { OperatorTelemetry } from '#core/ports/operator-telemetry.ts';
import { operatorTelemetry, pairsOf } from '#core/runs/telemetry/operator.ts';
import type { LocalConfig } from '../config.ts';

type OtelConfig = Pick<
  LocalConfig,
  | 'otlpEndpoint'
  | 'otlpHeaders'
  | 'otelServiceName'
  | 'otelResourceAttributes'
  | 'otelSampler'
  | 'otelSamplerArg'
  | 'otelDisabled'
>;

/** Reads the settings that OpenTelemetry's SDKs have, too. Returns undefined if nothing is sent. */
export function operatorTelemetryOf(config: OtelConfig): OperatorTelemetry | undefined {
  if (config.otlpEndpoint === undefined || config.otelDisabled) return undefined;
  const headers = pairsOf('OTEL_EXPORTER_OTLP_HEADERS', config.otlpHeaders);
  return operatorTelemetry({
    endpoint: config.otlpEndpoint,
    headers: async () => headers,
    serviceName: config.otelServiceName,
    attributes: pairsOf('OTEL_RESOURCE_ATTRIBUTES', config.otelResourceAttributes),
    sampler: config.otelSampler,
    ratio: config.otelSamplerArg,
  });
}
