import { PlatformError } from '#core/base/errors.ts';
import { CHANNEL_NAME_RULE, isChannelName } from '#core/manifest/channel-name.ts';
import { fullNameOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Changes } from '#core/ports/table.ts';
import { channelIn, type StoredChannels } from '../channels/channel.ts';

/**
 * A version that is never current and ends by itself (`docs/interface/channels.md#previews`), as a member of `previews` in the HEAD of its
 * agent. The version has the same as its member `preview`.
 */
export type StoredPreview = {
  /** Number of the version. */
  readonly version: number;
  /** ISO 8601. */
  readonly ends_at: string;
};
export type StoredPreviews = { readonly [name: string]: StoredPreview };

export const PREVIEW_DAYS = 7;
/** Each call of `latest` reads them. */
const MAX_PREVIEWS = 50;
/** Index of the agents with previews, by the earliest end. */
export const PREVIEWS = 'PREVIEWS';

export const previewEnd = (now: number): string => isoTime(now + PREVIEW_DAYS * 24 * 3600_000);

/** Returns the preview of this name, unless it has ended. Its version is removed some minutes later. */
export function previewIn(previews: StoredPreviews, name: string, now: number): StoredPreview | undefined {
  const preview = Object.hasOwn(previews, name) ? previews[name] : undefined;
  return preview !== undefined && Date.parse(preview.ends_at) > now ? preview : undefined;
}

/** Returns the attributes by which background work finds the HEAD of an agent, or their removal. */
export function previewIndex(
  { workspaceId, name }: Pick<AgentVersion, 'workspaceId' | 'name'>,
  previews: StoredPreviews,
): Changes {
  const ends = Object.values(previews).map(({ ends_at }) => ends_at);
  if (ends.length === 0) return { remove: ['gsi1pk', 'gsi1sk'] };
  return { set: { gsi1pk: PREVIEWS, gsi1sk: `${ends.sort()[0]}#${workspaceId}#${name}` } };
}

/** Returns the previews of an agent without those of a version. */
export const withoutPreviewsOf = (previews: StoredPreviews, version: number): StoredPreviews =>
  Object.fromEntries(Object.entries(previews).filter(([, preview]) => preview.version !== version));

/** Throws INVALID_INPUT for a name that no preview may have. */
export function checkPreviewName(name: string): void {
  if (!isChannelName(name)) {
    throw new PlatformError('INVALID_INPUT', `query.preview: "${name.slice(0, 64)}" ${CHANNEL_NAME_RULE}.`);
  }
}

/** Throws CONFLICT if a channel of the agent has the name, or the agent has too many previews. */
export function checkNewPreview(
  agent: Pick<AgentVersion, 'orgSlug' | 'name'>,
  name: string,
  { channels, previews }: { readonly channels: StoredChannels; readonly previews: StoredPreviews },
): void {
  if (channelIn(channels, name) !== undefined) {
    throw new PlatformError('CONFLICT', `query.preview: ${fullNameOf(agent)} has a channel called ${name}.`, {
      hint: 'Give the preview another name.',
    });
  }
  if (Object.hasOwn(previews, name) || Object.keys(previews).length < MAX_PREVIEWS) return;
  throw new PlatformError('CONFLICT', `${fullNameOf(agent)} has ${MAX_PREVIEWS} previews, the maximum.`, {
    hint: `Delete one with DELETE /agents/{id}, or wait: each ends ${PREVIEW_DAYS} days after its last publish.`,
  });
}
