import type { Deps } from '#core/ports/deps.ts';
import type { OperatorTelemetry } from '#core/ports/operator-telemetry.ts';
import { postOtlp } from '#core/runs/telemetry/post-otlp.ts';
import { metricsBody } from './otlp-metrics.ts';

/** The default of OpenTelemetry's SDKs. */
const EVERY_MS = 60_000;

/** Posts the metrics of this process every minute. A post that fails is made up for by the next: counters only grow. */
export function startMetrics(
  deps: Pick<Deps, 'clock' | 'log'> & { readonly hostState: { metrics(): Promise<string> } },
  operator: OperatorTelemetry,
): NodeJS.Timeout {
  const startedAt = deps.clock.now();
  let isPosting = false;
  const push = async () => {
    if (isPosting) return;
    isPosting = true;
    try {
      await pushMetrics(deps, operator, startedAt);
    } finally {
      isPosting = false;
    }
  };
  return setInterval(() => void push(), EVERY_MS).unref();
}

/** Posts the metrics once. Never throws. */
export async function pushMetrics(
  { clock, log, hostState }: Parameters<typeof startMetrics>[0],
  { exchanges, headers, url, resource }: OperatorTelemetry,
  startedAt: number,
): Promise<void> {
  try {
    const body = metricsBody(await hostState.metrics(), resource, { startedAt, now: clock.now() });
    const to = { url: url.replace(/\/traces$/, '/metrics'), headers: await headers() };
    const { problem } = await postOtlp(exchanges, to, body);
    if (problem !== undefined) log.warn('metrics not sent', { problem });
  } catch (error) {
    log.warn('metrics not sent', { error: String(error) });
  }
}
