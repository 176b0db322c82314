import { UsageError } from '#client/usage-error.ts';
import { isChannelName } from '#core/manifest/channel-name.ts';
import { anyVersion, readReference } from './agent-reference.ts';
import type { Cli } from './cli.ts';

/** Finds the agent of `agent@channel` in the workspace. Throws UsageError. */
export async function namedChannel(cli: Cli, text: string) {
  const { org, agent, version: channel } = await readReference(cli, text);
  if (!isChannelName(channel)) {
    throw new UsageError(`Invalid channel "${text}": expected agent@channel or org/agent@channel, such as bot@prod.`);
  }
  const { id } = await anyVersion(cli, `${org}/${agent}`);
  return { params: { id, channel }, address: `${org}/${agent}@${channel}` };
}

interface Named {
  readonly version: string;
  readonly canary: { readonly version: string; readonly percent: number } | null;
}

/** Names the versions of a channel, such as `v3, 10 % on v4`. */
export const versionsText = ({ version, canary }: Named): string =>
  canary === null ? version : `${version}, ${canary.percent} % on ${canary.version}`;
