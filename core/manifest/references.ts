import type { Dependency } from './definition.ts';
import type { AgentVersion } from './version.ts';

/** What a path or a dependency names; `version` is `v1`, `v2`, ... or `latest`. */
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

/** `v7` -> 7, `latest` -> `latest`; `undefined` for any other text. */
export function parseVersion(text: string): number | 'latest' | undefined {
  if (text === 'latest') return text;
  return EXACT_VERSION.test(text) ? Number(text.slice(1)) : undefined;
}

/**
 * The parts of `agent`, `org/agent` or `org/agent@version`; `undefined` for a text of another form. Any characters are
 * accepted in the parts: test {@link REFERENCE} where they must be well-formed.
 */
export function splitReference(
  text: string,
): { readonly org?: string; readonly name: string; readonly version?: string } | undefined {
  const [, org, name, version] = /^(?:([^/@]+)\/)?([^/@]+)(?:@([^/@]+))?$/.exec(text) ?? [];
  return name === undefined ? undefined : { org, name, version };
}

/** Where a dependency is found; its id must be an {@link FULL_NAME}. */
export function addressOf({ id, version }: Dependency): AgentAddress {
  const [org, agent] = id.split('/') as [string, string];
  return { org, agent, version };
}

/** The version that each user may change, apart from the published ones (`docs/interface/versions.md#dev`). */
export const DEV = 'dev';

/** `v1`, and `dev` for 0. */
export const versionName = (version: number): string => (version === 0 ? DEV : `v${version}`);

/** `org/agent`. */
export const fullNameOf = ({ orgSlug, name }: Pick<AgentVersion, 'orgSlug' | 'name'>): string => `${orgSlug}/${name}`;

/** `org/agent@v1`. */
export const refOf = (agent: Pick<AgentVersion, 'orgSlug' | 'name' | 'version'>): string =>
  `${fullNameOf(agent)}@${versionName(agent.version)}`;

/** `org/agent@v1`. */
export const dependencyRef = ({ id, version }: Dependency): string => `${id}@${version}`;
