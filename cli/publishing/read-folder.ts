import { resolve } from 'node:path';
import { type AgentFolder, readAgentFolder } from '#client/agent-folder.ts';
import { UsageError } from '#client/usage-error.ts';
import type { Cli } from '../shared/cli.ts';

/** Reads the folder of an agent for publishing. Throws UsageError that names the file and the fix. */
export async function readFolder(cli: Cli, folder: string): Promise<AgentFolder & { readonly body: { name: string } }> {
  try {
    return (await readAgentFolder(resolve(cli.host.cwd, folder))) as AgentFolder & { body: { name: string } };
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
