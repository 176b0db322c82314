import { AgentStore } from '#core/agents/store.ts';
import type { Caller } from '#core/base/caller.ts';
import type { Config } from '#core/base/config.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Judge } from '#core/manifest/evals/suite.ts';
import { parseVersion, splitReference } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { modelNamed } from '#core/models/named-model.ts';
import type { Deps } from '#core/ports/deps.ts';

/** Throws INVALID_INPUT for a judge that does not exist, or is not a model that the platform knows how to ask. */
export async function checkJudge(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config'>,
  caller: Caller,
  by: Judge,
  file: string,
): Promise<void> {
  if ('model' in by) providerOf(deps.config, by.model, `${file}: judge.model`);
  else if ((await agentNamed(deps, caller, by.agent)) === undefined) {
    const text = `${file}: judge.agent: the workspace has no agent ${by.agent.slice(0, 150)} that can run.`;
    throw new PlatformError('INVALID_INPUT', text, { hint: 'Write its name, such as main/my-judge@v3.' });
  }
}

/** Finds the agent that judges, in the workspace of the evaluation. */
export async function agentNamed(
  deps: Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'>,
  { workspace }: Pick<Caller, 'workspace'>,
  name: string,
): Promise<AgentVersion | undefined> {
  const { org = workspace.slug, name: agent, version = 'latest' } = splitReference(name) ?? { name };
  const number = parseVersion(version);
  if (org !== workspace.slug || number === undefined) return undefined;
  return new AgentStore(deps, workspace.id).findVersion(agent, number);
}

const ANY = { supported_providers: ['any'], default_models: {} } as const;

/** The model that judges, with its provider. Throws INVALID_INPUT. */
export const providerOf = (config: Config, model: string, field: string): ReturnType<typeof modelNamed> =>
  modelNamed(model, { wishes: ANY, config, field });
