import { UsageError } from '#client/usage-error.ts';
import { publishFolder } from '../publishing/publish-folder.ts';
import { readFolder } from '../publishing/read-folder.ts';
import type { Cli } from '../shared/cli.ts';

/** The tool of this machine. */
export const PUBLISH = {
  name: 'platform_publish',
  title: 'Publish an agent',
  description: 'Publish an agent from a local folder with an agent.json or a SKILL.md. No-op if nothing changed.',
  inputSchema: {
    type: 'object',
    properties: {
      folder: { type: 'string', description: 'Path of the folder, relative to the working directory of this server.' },
      workspace_id: { type: 'string', description: 'Workspace ID. Default: the workspace of the CLI.' },
    },
    required: ['folder'],
  },
  annotations: { readOnlyHint: false, destructiveHint: false },
};

/** Publishes a folder. Throws UsageError and the errors of its requests. */
export async function publish(given: Cli, { folder, workspace_id: workspace }: Readonly<Record<string, unknown>>) {
  if (typeof folder !== 'string') throw new UsageError('folder must be the path of a folder.');
  if (workspace !== undefined && typeof workspace !== 'string') throw new UsageError('workspace_id must be a string.');
  const cli = given.inWorkspace(workspace);
  const made = await publishFolder(await cli.client(), await readFolder(cli, folder), { onInstall: () => {} });
  const { agent, unchanged, failure, warnings } = made;
  const { org_slug, name, version, runnable } = agent;
  return { agent: `${org_slug}/${name}@${version}`, runnable, unchanged, failure, warnings };
}
