import { relative, resolve } from 'node:path';
import { readAgentFolder } from '#client/agent-folder.ts';
import { type AgentSource, readSource, type SourceFile } from '../publishing/agent-source.ts';
import { writeFiles } from '../publishing/write-files.ts';
import { readReference } from '../shared/agent-reference.ts';
import type { Cli, Configure } from '../shared/cli.ts';

const pull: Configure = (command, cli) => {
  command
    .argument('<agent>', 'Agent or version: agent, agent@v2, org/agent or org/agent@v2')
    .argument('[folder]', 'Folder to write to (default: the name of the agent)')
    .option('--force', 'Overwrite existing files')
    .addHelpText(
      'after',
      `
The folder can be published again with \`platform publish\`. Agents of other workspaces must be public and allow downloads
(allow_local_download).

Examples:
  $ platform pull hello
  $ platform pull main/deliveries@v1 ./deliveries-copy`,
    )
    .action(async (text, given, options) => {
      const { agent: name } = await readReference(cli, text);
      const source = await readSource(cli, text);
      const folder = resolve(cli.host.cwd, given ?? name);
      const files = source.type === 'skill' ? source.files : new Map([...source.files, manifestFile(source.manifest)]);
      await writeFiles(folder, files, options);
      const warnings = source.type === 'skill' ? [] : [...source.warnings, ...(await bringBack(folder, source))];
      for (const warning of warnings) cli.output.warn(warning);
      report(cli, folder, { ...source, files });
    });
};

const manifestFile = (manifest: object): [string, SourceFile] => [
  'agent.json',
  { content: Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`), executable: false },
];

/**
 * Adds files that publishing would skip to `bundle.include`, and a generated schema.json to `bundle.exclude`, because
 * the original patterns are not stored. Returns warnings about files that publishing would skip anyway.
 */
async function bringBack(folder: string, { manifest, files, packed }: AgentSource): Promise<string[]> {
  if (packed.length === 0) return [];
  const write = async (bundle: { readonly include?: string[]; readonly exclude?: string[] }) => {
    const patterns = Object.keys(bundle).length === 0 ? {} : { bundle };
    await writeFiles(folder, new Map([manifestFile({ ...manifest, ...patterns })]), { force: true });
    const { files: now } = await readAgentFolder(folder);
    return packed.filter((path) => !now!.has(path));
  };
  const exclude = files.has('schema.json') && !packed.includes('schema.json') ? { exclude: ['schema.json'] } : {};
  try {
    const left = await write(exclude);
    const include = left.map((path) => path.replaceAll(/[*?[{]/g, '[$&]'));
    const missing = left.length === 0 ? [] : await write({ include, ...exclude });
    return missing.map((path) => `${path} was written, but \`platform publish\` never uploads such files.`);
  } catch (error) {
    return [`\`platform publish\` would reject the folder as it is: ${(error as Error).message}`];
  }
}

function report(cli: Cli, folder: string, { agent, files }: AgentSource): void {
  const shown = relative(cli.host.cwd, folder) || '.';
  const result = { agent, folder, files: [...files.keys()].sort() };
  cli.output.result(result, () =>
    [`Wrote ${agent} to ${shown}:`, ...result.files.map((path) => `  ${path}`)].join('\n'),
  );
  cli.output.note(`Publish it with \`platform publish ${shown}\`.`);
}

export default pull;
