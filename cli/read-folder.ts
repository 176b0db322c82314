import { resolve } from 'node:path';
import { type AgentFolder, readAgentFolder } from './bundle-folder.ts';
import type { Cli } from './cli.ts';
import { UsageError } from './failure.ts';

/** What an agent's folder publishes. Throws UsageError that names the file and what to do. */
export async function readFolder(cli: Cli, folder: string): Promise<AgentFolder & { readonly body: { name: string } }> {
  try {
    return (await readAgentFolder(resolve(cli.host.cwd, folder))) as AgentFolder & { body: { name: string } };
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
