import { PlatformError } from '#core/base/errors.ts';
import type { Handlers } from '#core/http/route.ts';
import type { AllDeps, Deps } from '#core/ports/deps.ts';
import { noOperatorKey } from '#core/ports/operator-key.ts';
import { checkMaySee, maySee } from './operator-view.ts';
import type { healthRoutes, metricsRoutes } from './routes.ts';

type HealthDeps = Pick<Deps, 'main' | 'space' | 'clock' | 'log' | 'hostState'> & Partial<Pick<AllDeps, 'operatorKey'>>;

/** Time for which a health response is cached. */
const FRESH_MS = 2000;

/** Response time above which a database counts as degraded. */
const SLOW_MS = 1000;

interface Part {
  readonly name: string;
  readonly status: 'operational' | 'degraded' | 'outage';
  readonly latency_ms?: number;
}

export function healthHandlers(deps: HealthDeps): Handlers<typeof healthRoutes> {
  let found: { readonly at: number; readonly parts: Promise<Part[]> } | undefined;
  const fresh = (): Promise<Part[]> => {
    const now = deps.clock.now();
    if (found === undefined || Math.abs(now - found.at) > FRESH_MS) found = { at: now, parts: look(deps) };
    return found.parts;
  };
  return {
    async getDetailedHealth(incoming) {
      const services = await fresh();
      const { hostState, operatorKey = noOperatorKey } = deps;
      const isShown = hostState !== undefined && (await maySee({ operatorKey }, incoming));
      return {
        status: 200,
        body: { status: worstOf(services), services, ...(isShown && { system: await hostState.system() }) },
        headers: { 'cache-control': 'no-store' },
      };
    },
  };
}

async function look({ main, space, clock, log, hostState }: HealthDeps): Promise<Part[]> {
  const startedAt = clock.now();
  const database = await main.get({ pk: 'HEALTH', sk: 'META' }).then(
    (): Part => {
      const latency_ms = Math.max(0, clock.now() - startedAt);
      return { name: 'database', status: latency_ms > SLOW_MS ? 'degraded' : 'operational', latency_ms };
    },
    (error): Part => {
      log.warn('the database does not answer', { error: String(error) });
      return { name: 'database', status: 'outage' };
    },
  );
  const parts = [{ name: 'storage', problem: await space.problem() }, ...((await hostState?.parts()) ?? [])];
  return [
    { name: 'api', status: 'operational' },
    database,
    ...parts.map(({ name, problem }): Part => ({ name, status: problem === undefined ? 'operational' : 'degraded' })),
  ];
}

const worstOf = (parts: readonly Part[]): 'healthy' | 'degraded' | 'unhealthy' =>
  parts.some(({ status }) => status === 'outage')
    ? 'unhealthy'
    : parts.some(({ status }) => status === 'degraded')
      ? 'degraded'
      : 'healthy';

export const metricsHandlers = (
  deps: Pick<Deps, 'hostState'> & Partial<Pick<AllDeps, 'operatorKey'>>,
): Handlers<typeof metricsRoutes> => ({
  async getMetrics(incoming) {
    const { hostState, operatorKey = noOperatorKey } = deps;
    if (hostState === undefined) {
      throw new PlatformError('NOT_FOUND', 'The metrics of this platform are in Amazon CloudWatch.', {
        hint: 'docs/operate.md describes the dashboard and the alarms.',
      });
    }
    await checkMaySee({ operatorKey }, incoming);
    const body = new TextEncoder().encode(await hostState.metrics());
    return {
      status: 200,
      body,
      headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8', 'cache-control': 'no-store' },
    };
  },
});
