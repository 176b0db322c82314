import { UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import { isChannelName } from '#core/manifest/channel-name.ts';
import type { Cli } from './cli.ts';

/** A version of an agent as in the paths of the API (`docs/interface/identifiers.md`). */
export interface AgentReference {
  readonly org: string;
  readonly agent: string;
  /** `v2`, `latest`, a channel, or `dev` for your personal version. */
  readonly version: string;
}

const REFERENCE = /^(?:([a-z0-9][a-z0-9-]*)\/)?([a-z0-9][a-z0-9._-]*)(?:@([a-z][a-z0-9-]*))?$/;
const isVersion = (text: string): boolean => /^(latest|dev|v\d+)$/.test(text) || isChannelName(text);

/**
 * Parses `agent`, `agent@v2`, `org/agent` or `org/agent@v2`. The org defaults to the current workspace. Throws
 * UsageError.
 */
export async function readReference(cli: Cli, text: string): Promise<AgentReference> {
  const [, org, agent, version = 'latest'] = REFERENCE.exec(text) ?? [];
  if (agent === undefined || !isVersion(version)) {
    throw new UsageError(
      `Invalid agent "${text}": expected agent, agent@v2, agent@channel, agent@dev, org/agent or org/agent@v2.`,
    );
  }
  return { org: org ?? (await cli.org()).slug, agent, version };
}

/**
 * Returns the versions of an agent in the current workspace, newest first: without previews, unless the text names one. Throws UsageError if
 * there are none.
 *
 * @param withPreviews Whether to return previews, too. @default false
 */
export async function ownVersions(
  cli: Cli,
  text: string,
  { withPreviews = false }: { readonly withPreviews?: boolean } = {},
) {
  const { org, agent, version: named } = await readReference(cli, text);
  const client = await cli.client();
  const all = await client.listAgents({ query: { name: agent } });
  const numberOf = ({ version: name }: { version: string }) => Number(name.slice(1));
  const versions = all
    .filter(({ name, org_slug }) => name === agent && org_slug === org)
    .sort((a, b) => numberOf(b) - numberOf(a));
  const preview = versions.find((each) => each.preview?.name === named);
  const version =
    preview?.version ?? (isChannelName(named) && versions[0] ? await versionOf(client, versions[0].id, named) : named);
  const wanted =
    version === 'latest'
      ? versions.filter((each) => withPreviews || each.preview === null)
      : versions.filter((each) => each.version === version);
  if (wanted.length === 0) {
    const names = [...new Set((await client.listAgents({})).map(({ name }) => name))].join(', ') || 'none';
    throw new UsageError(`No agent "${text}" in the workspace. Its agents: ${names}.`, { exitCode: 4 });
  }
  return wanted;
}

/** Returns the version that a channel names; `undefined` if there is no such channel. */
async function versionOf(client: Client, id: string, channel: string): Promise<string | undefined> {
  const { channels } = await client.listChannels({ params: { id } });
  return channels.find(({ name }) => name === channel)?.version;
}

/** Returns the newest version of an agent in the current workspace, whichever version or channel the text names. */
export const anyVersion = async (cli: Cli, text: string) =>
  (await ownVersions(cli, text.split('@')[0]!, { withPreviews: true }))[0]!;

/** Returns a version in the current workspace, or a public one. Throws UsageError and the errors of its requests. */
export async function visibleVersion(cli: Cli, text: string) {
  const reference = await readReference(cli, text);
  if (reference.org === (await cli.org()).slug) return (await ownVersions(cli, text))[0]!;
  return (await cli.client()).getPublicAgent({ params: { ...reference } });
}

/** Returns all agents of the workspace in their latest versions, last published first. */
export async function newestVersions(client: Client) {
  const page = (cursor?: string) => client.listAgents({ query: { latest: 'true', limit: 100, cursor } });
  const all = await page();
  for (let next = all.at(-1)?.next_cursor; next; next = all.at(-1)?.next_cursor) all.push(...(await page(next)));
  return all;
}
