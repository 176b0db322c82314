import { lstat } from 'node:fs/promises';
import { basename, join, relative, resolve } from 'node:path';
import { UsageError } from '#client/usage-error.ts';
import { writeFiles } from '../publishing/write-files.ts';
import type { Cli } from '../shared/cli.ts';
import { agentFiles } from './agent-files.ts';
import { chooseEntry, chooseFramework, entryText } from './find-framework.ts';
import { readProject } from './project.ts';

interface Options {
  readonly from: string;
  readonly framework?: string | undefined;
  readonly entry?: string | undefined;
  readonly name?: string | undefined;
}

/** Format of agent names (`docs/interface/identifiers.md#formats`). */
export const AGENT_NAME = /^(?=.{2,50}$)[a-z0-9]+(-[a-z0-9]+)*$/;

/** `platform init --from`: makes an agent of an existing project, in its folder. Files that exist are left unchanged. */
export async function initFrom(cli: Cli, { from, framework: given, entry: givenEntry, name }: Options): Promise<void> {
  const folder = resolve(cli.host.cwd, from);
  const project = await readProject(folder);
  const found = chooseFramework(project, given);
  const { framework, places } = found;
  const entry = chooseEntry(project, found, givenEntry);
  const agent = nameOf(folder, name);
  const { files, isService, notes } = agentFiles(project, framework, entry, agent);
  const kept: string[] = [];
  const missing = new Map<string, { content: Buffer; executable: boolean }>();
  for (const [path, text] of Object.entries(files)) {
    if (await exists(join(folder, path))) kept.push(path);
    else missing.set(path, { content: Buffer.from(text), executable: false });
  }
  await writeFiles(folder, missing);
  const written = [...missing.keys()];
  const result = {
    ...{ name: agent, framework: framework.name, found: places, entry: entryText(entry), folder },
    ...{ files: written, kept, notes },
  };
  cli.output.result(result, () =>
    [
      `Found ${framework.title}: ${places.join(', ')}. Entry point: ${entryText(entry)}.`,
      written.length > 0 ? `Created ${written.join(', ')}.` : 'Nothing was created: all files exist.',
    ].join('\n'),
  );
  if (kept.length > 0) cli.output.note(`Left unchanged: ${kept.join(', ')}. To create one again, delete it first.`);
  for (const note of notes) cli.output.note(note);
  const shown = relative(cli.host.cwd, folder) || '.';
  const publish = `\`platform publish${shown === '.' ? '' : ` ${shown}`}\``;
  const sample = relative(cli.host.cwd, join(folder, 'sample-input.json'));
  const call = isService ? `\`platform service deploy ${agent}\`` : `\`platform run ${agent} ${sample}\``;
  cli.output.note(`Next: ${publish}, ${call}.`);
}

/** Whether a path is taken, be it by a link that leads nowhere. */
const exists = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );

/** Returns the given name, or one from the name of the folder. */
function nameOf(folder: string, given: string | undefined): string {
  const words = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-');
  const name = given ?? words.slice(0, 50).replaceAll(/^-|-$/g, '');
  if (AGENT_NAME.test(name)) return name;
  throw new UsageError(
    `Invalid agent name "${name}": use 2 to 50 lower-case letters, digits and single hyphens.`,
    given === undefined ? { hint: 'Name the agent with --name.' } : {},
  );
}
