import type { Deps } from '#core/ports/deps.ts';
import { operatorTelemetry, pairsOf, type Sampling } from '#core/runs/telemetry/operator.ts';
import type { HostDeps } from './deps.ts';

/** Form of the setting `PLATFORM_OPERATOR_TELEMETRY`, which the stacks write from `telemetry` of the stage. */
export interface OperatorTelemetrySettings extends Sampling {
  readonly endpoint: string;
  readonly serviceName: string;
  readonly attributes: Readonly<Record<string, string>>;
  /**
   * Secret in Secrets Manager with the headers of each request, in the form of `OTEL_EXPORTER_OTLP_HEADERS`. Only the
   * function that sends may read it. A changed secret takes effect within five minutes.
   *
   * @default - no headers
   */
  readonly secretName?: string | undefined;
}

/** The operator's collector, if the stage has one. Reads nothing before spans are sent. */
export function operatorTelemetryParts({
  config,
  clock,
}: Pick<HostDeps, 'config' | 'clock'>): Pick<Deps, 'operatorTelemetry'> {
  if (config.operatorTelemetry === undefined) return {};
  const { secretName, ...settings } = JSON.parse(config.operatorTelemetry) as OperatorTelemetrySettings;
  let kept: Promise<() => Promise<Record<string, string>>> | undefined;
  const headers = async (): Promise<Record<string, string>> => {
    if (secretName === undefined) return {};
    kept ??= import('./secrets/kept-secret.ts').then(({ keptSecret }) =>
      keptSecret({ secretName, clock }, (text) => pairsOf(`the secret ${secretName}`, text)),
    );
    return (await kept)();
  };
  return { operatorTelemetry: operatorTelemetry({ ...settings, headers }) };
}
