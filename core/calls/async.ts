import type { Deps } from '../deps.ts';
import { beginCall, type Call } from './call.ts';

/**
 * Begins a run that nobody waits for: its record says how it ends. Throws what {@link beginCall} throws, and then there
 * is no run.
 */
export async function startAsync(deps: Deps, call: Call): Promise<void> {
  const run = await beginCall(deps, call);
  deps.background(run.finish().then(ignore, ignore));
}

const ignore = (): void => {};
