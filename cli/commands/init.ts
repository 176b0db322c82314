import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { UsageError } from '#client/usage-error.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { table } from '../shared/output.ts';
import { TEMPLATES, type TemplateName, templateFiles } from '../templates.ts';

const NAMES = Object.keys(TEMPLATES) as TemplateName[];
/** Format of agent names (`docs/interface/identifiers.md#formats`). */
const AGENT_NAME = /^(?=.{2,50}$)[a-z0-9]+(-[a-z0-9]+)*$/;

const init: Configure = (command, cli) => {
  command
    .argument('[folder]', 'Folder to create; its name becomes the name of the agent')
    .option('-t, --template <name>', `Template to start from: ${NAMES.join(', ')}`)
    .option('--list', 'List the templates')
    .addHelpText('after', '\nExample:\n  $ platform init greeter --template tool-python')
    .action(async (given, options) => {
      if (options.list) return listTemplates(cli);
      const template = await templateOf(cli, options.template);
      const folder = resolve(cli.host.cwd, given ?? (await askFolder(cli)));
      const name = basename(folder);
      if (!AGENT_NAME.test(name)) {
        throw new UsageError(
          `Invalid agent name "${name}": use 2 to 50 lower-case letters, digits and single hyphens.`,
        );
      }
      const files = Object.entries(templateFiles(template, name)).map(
        ([path, text]) => [join(dirname(folder), path), text] as const,
      );
      const shown = (path: string): string => relative(cli.host.cwd, path) || '.';
      // Dependencies may already exist; existing files are kept, because they are newer.
      const own = files.filter(([path]) => path.startsWith(`${folder}/`) || path.startsWith(`${folder}\\`));
      const others = new Set(files.filter((file) => !own.includes(file)).map(([path]) => siblingOf(folder, path)));
      const missing = [...others].filter((other) => !existsSync(other));
      const taken = own.filter(([path]) => existsSync(path)).map(([path]) => shown(path));
      if (taken.length > 0) {
        throw new UsageError(`These files already exist: ${taken.join(', ')}. Nothing was written.`, {
          hint: 'Choose another folder.',
        });
      }
      const written = files.filter((file) => own.includes(file) || missing.includes(siblingOf(folder, file[0])));
      for (const [path, text] of written) {
        await mkdir(dirname(path), { recursive: true });
        await writeFile(path, text, { flag: 'wx' });
      }
      const result = { name, template, folder, files: written.map(([path]) => shown(path)) };
      cli.output.result(result, () => `Created ${name} in ${shown(folder)} (${written.length} files).`);
      for (const other of missing) cli.output.note(`Created ${shown(other)} too: ${name} calls ${basename(other)}.`);
      const next = [...missing, folder].map((each) => `\`platform publish ${shown(each)}\``).join(', ');
      cli.output.note(`Next: ${next}. AGENTS.md describes each file.`);
    });
};

/** Returns the agent folder, beside `folder`, that contains a file. */
const siblingOf = (folder: string, path: string): string =>
  join(dirname(folder), relative(dirname(folder), path).split(/[\\/]/)[0]!);

function listTemplates(cli: Cli): void {
  const all = NAMES.map((name) => ({ name, summary: TEMPLATES[name].summary, example: TEMPLATES[name].example }));
  cli.output.result(all, () =>
    table(
      ['template', 'description', 'based on'],
      all.map(({ name, summary, example }) => [name, summary, `examples/${example}`]),
      cli.output.width,
    ),
  );
}

async function templateOf(cli: Cli, given: string | undefined): Promise<TemplateName> {
  const found = NAMES.find((name) => name === given);
  if (found !== undefined) return found;
  if (given !== undefined) throw new UsageError(`Unknown template "${given}": choose from ${NAMES.join(', ')}.`);
  return cli.choose(
    'Which template?',
    NAMES.map((name) => ({ value: name, hint: TEMPLATES[name].summary })),
    '--template',
  );
}

const askFolder = (cli: Cli): Promise<string> =>
  cli.ask('Name of the agent', 'Missing argument: folder, as in `platform init greeter`.');

export default init;
