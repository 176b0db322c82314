import type { Deps } from '#core/ports/deps.ts';
import { type BegunRun, beginCall, type Call } from './call.ts';

/**
 * Begins a run that nobody waits for: its record says how it ends. Throws what {@link beginCall} throws, and then there
 * is no run.
 */
export async function startAsync(deps: Deps, call: Call): Promise<void> {
  finishInBackground(deps, await beginCall(deps, call));
}

export function finishInBackground({ background }: Pick<Deps, 'background'>, run: BegunRun): void {
  background(run.finish().then(ignore, ignore));
}

const ignore = (): void => {};
