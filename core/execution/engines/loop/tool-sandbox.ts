import { headerSecrets } from '#core/manifest/parsing/mcp-servers.ts';
import { rowOf } from '#core/models/providers.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type ExecOutcome, execToEnd, type SandboxSession } from '#core/ports/sandbox.ts';
import type { EngineRun } from '../engine.ts';
import { openRunSandbox } from '../run-sandbox.ts';
import { COMMAND_SECONDS } from './tool-outcome.ts';

export const HOME = '/home/user';

export type ToolSandboxDeps = Pick<Deps, 'sandbox' | 'config' | 'clock'>;

/**
 * Opens the sandbox that a run's tools share. Throws what {@link openRunSandbox} throws.
 *
 * @param prepare See {@link openRunSandbox}.
 */
export async function openToolSandbox(
  deps: ToolSandboxDeps,
  run: EngineRun,
  prepare?: (session: SandboxSession) => Promise<void>,
): Promise<SandboxSession> {
  const session = await openRunSandbox(deps, run, toolEnvironment(run), { prepare });
  // Tools find the helpers for sub-calls in their home directory (docs/interface/loops.md#dependencies).
  const hasDependencies = (run.agent.definition.manifest?.dependencies.length ?? 0) > 0;
  if (hasDependencies) await runToolCommand(session, { command: 'ln -sfn /runtime/helpers "$HOME/helpers"' });
  return session;
}

/** Runs a command until it ends or reaches the time limit of tools. */
export const runToolCommand = (
  session: SandboxSession,
  request: { readonly command: string; readonly stdin?: Uint8Array; readonly signal?: AbortSignal },
): Promise<ExecOutcome> => execToEnd(session, { ...request, cwd: HOME, timeoutMs: COMMAND_SECONDS * 1000 });

/**
 * Returns the tools' environment without the keys and base URLs of this loop's models, even if the author declared them
 * as
 * secrets: only the platform calls those models. The platform also calls the MCP servers, so the secrets of their
 * headers
 * are left out as well.
 */
export function toolEnvironment({ agent, env, models }: EngineRun): Record<string, string> {
  const names = models.flatMap(({ provider }) => {
    const { key } = rowOf(provider);
    return key === null ? [] : [key.secret, key.addressSecret];
  });
  const ofServers = headerSecrets(agent.definition.loop?.mcp_servers ?? []);
  const keys = models.map(({ apiKey }) => apiKey);
  const allowed = Object.entries(env).filter(
    ([name, value]) => !names.includes(name) && !ofServers.includes(name) && !keys.includes(value),
  );
  const { provider, model } = models[0]!;
  return { ...Object.fromEntries(allowed), LLM_PROVIDER: provider, LLM_MODEL: model };
}
