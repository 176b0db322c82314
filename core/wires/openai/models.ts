import type { Sticking } from '#core/agents/channels/channel.ts';
import { listCurrent } from '#core/agents/current.ts';
import type { Caller } from '#core/base/caller.ts';
import { isPlatformError } from '#core/base/errors.ts';
import { findTarget, type Target } from '#core/execution/calls/target.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { fullNameOf, splitReference, writtenVersion } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { OpenAiError } from './errors.ts';

type ModelDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids' | 'config'>;

/** A caller, and whether the request named its workspace. */
export interface ModelCaller {
  readonly caller: Caller;
  readonly isNamed: boolean;
  /** What the request has to stick by besides the key, for a channel. @default - nothing */
  readonly sticking?: Omit<Sticking, 'key'>;
}

/**
 * Finds the agent that a model's name stands for: `org/agent`, with `@v3`, `@latest`, `@dev` or a channel; an agent without its
 * organization is one of the caller's workspace. Throws NOT_FOUND, FORBIDDEN.
 */
export async function findModel(
  deps: ModelDeps,
  { caller, isNamed, sticking }: ModelCaller,
  model: string,
): Promise<Target> {
  const reference = splitReference(model);
  if (reference === undefined) throw unknownModel(model);
  const { org = caller.workspace.slug, name, version = 'latest' } = reference;
  // Some clients keep only the digits of what they take for a date.
  const params = { org, agent: name, version: writtenVersion(version) };
  try {
    return await findTarget(deps, params, caller, isNamed, sticking);
  } catch (error) {
    if (isPlatformError(error) && error.code === 'NOT_FOUND') throw unknownModel(model);
    throw error;
  }
}

const unknownModel = (model: string): OpenAiError =>
  new OpenAiError(
    'NOT_FOUND',
    `The model "${model.slice(0, 200)}" does not exist: it is the name of an agent, as "org/agent" or "org/agent@v1".`,
    { param: 'model', openAiCode: 'model_not_found' },
  );

/** Clients show models in menus, and no page of them can be asked for. */
const MAX_MODELS = 500;
/** Pages have 100 agents, most of which may be something else, such as skills. */
const MAX_PAGES = 20;

/** Lists the agents of a workspace that calls can start, the last published first. */
export async function listModels(deps: Omit<ModelDeps, 'ids'>, { workspace }: Pick<Caller, 'workspace'>) {
  const models: ReturnType<typeof modelView>[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES && models.length < MAX_MODELS; page++) {
    const { agents, nextCursor } = await listCurrent(deps, workspace.id, { limit: 100, cursor });
    const started = agents.filter(({ version, isCurrent }) => isCurrent && isStartedByCalls(version));
    models.push(...started.map(({ version }) => modelView(version)));
    if (nextCursor === undefined) break;
    cursor = nextCursor;
  }
  return models;
}

const isStartedByCalls = (agent: AgentVersion): boolean =>
  engineTraits(agent).isRun && agent.definition.run_mode !== 'always_on';

export const modelView = (agent: AgentVersion) => ({
  id: fullNameOf(agent),
  object: 'model',
  created: Math.floor(Date.parse(agent.createdAt) / 1000),
  owned_by: agent.orgSlug,
});
