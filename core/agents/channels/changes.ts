import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Incoming } from '#core/http/route.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import { fullNameOf, parseVersion, refOf, versionName, writtenVersion } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { checkMayBeNamed } from '../gates/gate.ts';
import type { AgentListeners } from '../listeners.ts';
import { AgentStore } from '../store.ts';
import { isWatched, type StoredCanary, type StoredChannel, type TakenBack, whyTakenBack } from './channel.ts';
import type { channelRoutes } from './routes.ts';
import { type ChangeRequest, ChannelStore, type Decided, type NamedChannel } from './store.ts';

const DEFAULT_MAX_ERROR_RATE = 0.1;
const DEFAULT_MIN_CALLS = 20;

type ChangeDeps = Pick<Deps, 'main' | 'blobs' | 'clock' | 'ids'> & { readonly listeners: AgentListeners };
type NewChannel = Incoming<Extract<(typeof channelRoutes)[number], { operationId: 'putChannel' }>>['body'];
type Step = Pick<ChangeRequest, 'revision' | 'why'>;

/** A channel of the agent of a version, and who changes it. */
export interface Changing {
  readonly caller: Caller;
  readonly agent: AgentVersion;
  readonly channel: string;
}

/**
 * Makes a channel name a version, and perhaps a canary beside it. Throws INVALID_INPUT for a name that none may have,
 * NOT_FOUND for a version that does not exist, UNPROCESSABLE for one that cannot run, and CONFLICT.
 */
export function putChannel(deps: ChangeDeps, changing: Changing, body: NewChannel): Promise<NamedChannel> {
  const { agent } = changing;
  if (!engineTraits(agent).isRun) {
    throw new PlatformError('UNPROCESSABLE', `${fullNameOf(agent)} is a skill, and skills have no channels.`, {
      hint: 'Agents name the skills that they use, and their versions, in their manifests.',
    });
  }
  return change(deps, changing, body, async (before) => {
    const version = await runnableVersion(deps, agent, body.version, 'version');
    const canary = body.canary ? await canaryFrom(deps, agent, body.canary) : undefined;
    if (canary?.version === version) {
      throw new PlatformError(
        'INVALID_INPUT',
        `body.canary.version: is ${versionName(version)}, which the channel names already: name another one.`,
      );
    }
    const isSame = before?.version === version && JSON.stringify(before.canary) === JSON.stringify(canary);
    if (isSame) return 'unchanged';
    return { action: before === undefined ? 'created' : 'changed', channel: moved(before, version, canary) };
  });
}

/** Makes the canary the version of its channel. Throws NOT_FOUND, and CONFLICT if there is none, or it was taken back. */
export const promoteCanary = (deps: ChangeDeps, changing: Changing, step: Step): Promise<NamedChannel> =>
  change(deps, changing, step, async (before) => {
    const channel = existing(deps, changing, before);
    const { canary, name } = channel;
    if (canary === undefined) {
      throw new PlatformError(
        'CONFLICT',
        `The channel ${name} has no canary: it names ${versionName(channel.version)}.`,
        {
          hint: 'PUT /agents/{id}/channels/{channel} makes it name another version.',
        },
      );
    }
    if (canary.taken_back !== undefined) {
      const { at } = canary.taken_back;
      throw new PlatformError(
        'CONFLICT',
        `The canary ${versionName(canary.version)} of the channel ${name} was taken back at ${at}: ${whyTakenBack(canary.taken_back)}.`,
        { hint: 'PUT /agents/{id}/channels/{channel} makes the channel name it all the same.' },
      );
    }
    await runnableVersion(deps, changing.agent, versionName(canary.version), 'canary');
    return { action: 'promoted', channel: moved(channel, canary.version, undefined) };
  });

/**
 * Takes a channel one step back: its canary away, or else back to the version that it named before. Throws NOT_FOUND, and
 * CONFLICT if there is neither.
 */
export const rollBackChannel = (deps: ChangeDeps, changing: Changing, step: Step): Promise<NamedChannel> =>
  change(deps, changing, step, async (before) => {
    const channel = existing(deps, changing, before);
    const { version, canary } = channel;
    if (canary !== undefined) return { action: 'rolled_back', channel: { version, before: channel.before } };
    const agents = new AgentStore(deps, changing.agent.workspaceId);
    // A version may have been deleted since the channel named it.
    for (let i = channel.before.length - 1; i >= 0; i--) {
      const found = await agents.findVersion(changing.agent.name, channel.before[i]!);
      if (found?.runnable !== true) continue;
      return { action: 'rolled_back', channel: { version: found.version, before: channel.before.slice(0, i) } };
    }
    const text = `The channel ${channel.name} names ${versionName(version)}, and no version before it is left.`;
    throw new PlatformError('CONFLICT', text, {
      hint: 'PUT /agents/{id}/channels/{channel} makes it name another version.',
    });
  });

/** Deletes a channel. Throws NOT_FOUND, CONFLICT. */
export async function deleteChannel(deps: ChangeDeps, { caller, agent, channel: name }: Changing, step: Step) {
  const store = new ChannelStore(deps, agent);
  await store.change(name, { by: caller.userId, ...step }, (before) => {
    if (before === undefined) throw store.notFound(name);
    return { action: 'deleted', channel: undefined };
  });
}

/**
 * Takes the canary of a channel back, because its calls failed or had bad scores. Returns the channel; `undefined` if it changed since it
 * had this revision. Safe to repeat.
 */
export async function takeBack(
  deps: Pick<Deps, 'main' | 'clock'>,
  agent: Pick<AgentVersion, 'workspaceId' | 'name' | 'orgSlug'>,
  { name, revision }: Pick<NamedChannel, 'name' | 'revision'>,
  counts: Pick<TakenBack, 'calls' | 'failed' | 'score'>,
): Promise<NamedChannel | undefined> {
  const now = new Date(deps.clock.now()).toISOString();
  const changed = await new ChannelStore(deps, agent).change(
    name,
    { by: null, why: whyTakenBack(counts) },
    (before) => {
      // A person was faster: what they decided holds.
      if (before?.canary === undefined || before.revision !== revision || !isWatched(before)) return 'unchanged';
      const taken_back = { at: now, ...counts, is_told: false };
      return { action: 'taken_back', channel: { ...before, canary: { ...before.canary, percent: 0, taken_back } } };
    },
  );
  return changed?.revision === revision + 1 ? changed : undefined;
}

/** Changes a channel, and moves the schedules and services that follow it. */
async function change(
  deps: ChangeDeps,
  { caller, agent, channel }: Changing,
  step: Step,
  decide: (before: NamedChannel | undefined) => Promise<Decided | 'unchanged'>,
): Promise<NamedChannel> {
  const store = new ChannelStore(deps, agent);
  const changed = await store.change(channel, { by: caller.userId, why: step.why, revision: step.revision }, decide);
  await deps.listeners.currentVersionChanged(agent);
  return changed!;
}

const existing = (deps: ChangeDeps, { agent, channel }: Changing, before: NamedChannel | undefined): NamedChannel => {
  if (before === undefined) throw new ChannelStore(deps, agent).notFound(channel);
  return before;
};

function moved(
  before: StoredChannel | undefined,
  version: number,
  canary: StoredCanary | undefined,
): NonNullable<Decided['channel']> {
  const earlier = before?.before ?? [];
  const isMoved = before !== undefined && before.version !== version;
  return { version, ...(canary && { canary }), before: isMoved ? [...earlier, before.version] : earlier };
}

async function canaryFrom(
  deps: ChangeDeps,
  agent: AgentVersion,
  { version, percent, key, max_error_rate, min_calls, min_score }: NonNullable<NewChannel['canary']>,
): Promise<StoredCanary> {
  return {
    version: await runnableVersion(deps, agent, version, 'canary.version'),
    percent,
    ...(key != null && { key }),
    max_error_rate: max_error_rate ?? DEFAULT_MAX_ERROR_RATE,
    min_calls: min_calls ?? DEFAULT_MIN_CALLS,
    ...(min_score != null && { min_score }),
  };
}

/** Returns the number of a version that can run. Throws NOT_FOUND, UNPROCESSABLE, and CONFLICT for one that its gate holds and for a preview. */
async function runnableVersion(
  deps: ChangeDeps,
  { workspaceId, name, orgSlug }: AgentVersion,
  text: string,
  member: string,
): Promise<number> {
  const number = parseVersion(writtenVersion(text));
  const found = number && (await new AgentStore(deps, workspaceId).findVersion(name, number));
  if (!found) {
    throw new PlatformError('NOT_FOUND', `body.${member}: ${orgSlug}/${name} has no version ${text.slice(0, 20)}.`, {
      hint: 'GET /agents lists the versions of each agent.',
    });
  }
  if (!found.runnable) {
    throw new PlatformError(
      'UNPROCESSABLE',
      `body.${member}: ${refOf(found)} cannot run yet: its code or its dependencies are missing.`,
      { hint: 'Upload the code, and wait for the end of the installation.' },
    );
  }
  checkMayBeNamed(found, `body.${member}`);
  return found.version;
}
