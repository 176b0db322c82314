import type { Dependency } from './definition.ts';
import type { AgentVersion } from './version.ts';

/** Target of a path or dependency; `version` is `v1`, `v2`, ..., `latest`, or the name of a channel. */
export interface AgentAddress {
  readonly org: string;
  readonly agent: string;
  readonly version: string;
}

const NAME = '[a-z0-9][a-z0-9-]*';
const NUMBERED = String.raw`v[1-9]\d{0,4}`;

/** `org/agent`, the full name of an agent. */
export const FULL_NAME = new RegExp(`^${NAME}/${NAME}$`);
/** `v1`, `v2`, ... */
export const EXACT_VERSION = new RegExp(`^${NUMBERED}$`);
/** `agent`, `org/agent`, `org/agent@v1` or `org/agent@latest`. */
export const REFERENCE = new RegExp(`^(?:${NAME}/)?${NAME}(?:@(?:${NUMBERED}|latest))?$`);

/** Parses `v7` to 7 and `latest` to `latest`; `undefined` for any other text. */
export function parseVersion(text: string): number | 'latest' | undefined {
  if (text === 'latest') return text;
  return EXACT_VERSION.test(text) ? Number(text.slice(1)) : undefined;
}

/**
 * Splits `agent`, `org/agent` or `org/agent@version`; `undefined` for a text of another form. The parts may contain any
 * characters: test {@link REFERENCE} if they must be well-formed.
 */
export function splitReference(
  text: string,
): { readonly org?: string; readonly name: string; readonly version?: string } | undefined {
  const [, org, name, version] = /^(?:([^/@]+)\/)?([^/@]+)(?:@([^/@]+))?$/.exec(text) ?? [];
  return name === undefined ? undefined : { org, name, version };
}

/**
 * Reads the address of a path without a place for a version, in which the agent may be `agent@version`. By default, it is
 * that of `latest`.
 */
export function addressIn({ org, agent }: { readonly org: string; readonly agent: string }): AgentAddress {
  const at = agent.indexOf('@');
  return at < 0 ? { org, agent, version: 'latest' } : { org, agent: agent.slice(0, at), version: agent.slice(at + 1) };
}

/**
 * Normalizes a version as people write it: `3` means `v3`. Other texts stay as they are.
 */
export const writtenVersion = (text: string): string => text.replace(/^(?=\d)/, 'v');

/** Returns the address of a dependency; its id must match {@link FULL_NAME}. */
export function addressOf({ id, version }: Dependency): AgentAddress {
  const [org, agent] = id.split('/') as [string, string];
  return { org, agent, version };
}

/** The mutable version of each user, in addition to the published ones (`docs/interface/versions.md#dev`). */
export const DEV = 'dev';

/** Returns `v1`, or `dev` for 0. */
export const versionName = (version: number): string => (version === 0 ? DEV : `v${version}`);

/** `org/agent`. */
export const fullNameOf = ({ orgSlug, name }: Pick<AgentVersion, 'orgSlug' | 'name'>): string => `${orgSlug}/${name}`;

/** `org/agent@v1`. */
export const refOf = (agent: Pick<AgentVersion, 'orgSlug' | 'name' | 'version'>): string =>
  `${fullNameOf(agent)}@${versionName(agent.version)}`;

/** `org/agent@v1`. */
export const dependencyRef = ({ id, version }: Dependency): string => `${id}@${version}`;
