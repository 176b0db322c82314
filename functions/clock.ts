import type { HostDeps } from '#aws/deps.ts';
import type { AwsClockName, BackgroundFunctionName } from '#core/api/background.ts';

/**
 * Returns the handler of a function that a clock invokes. It runs the function's rows of the background table
 * concurrently. If any fails, it throws after all have ended, so that CloudWatch counts an error; the next tick
 * retries.
 */
export const createClockHandler =
  <Fn extends BackgroundFunctionName, Deps extends Pick<HostDeps, 'settled'>>(
    _fn: Fn,
    deps: Deps,
    work: { readonly [Name in AwsClockName<Fn>]: (deps: Deps) => Promise<unknown> },
  ) =>
  async (): Promise<void> => {
    const rows = Object.values<(deps: Deps) => Promise<unknown>>(work);
    const ended = await Promise.allSettled(rows.map((run) => run(deps)));
    await deps.settled();
    const failed = ended.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined;
    if (failed) throw failed.reason;
  };
