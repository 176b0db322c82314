import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { type FileContent, galleryOf } from '#client/gallery.ts';
import { UsageError } from '#client/usage-error.ts';
import { FRAMEWORKS } from '../frameworks/frameworks.ts';
import { AGENT_NAME, initFrom } from '../frameworks/init-from.ts';
import { packedFiles } from '../packed-files.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { table } from '../shared/output.ts';
import { galleryFiles, TEMPLATES, type TemplateName, templateFiles } from '../templates.ts';

const NAMES = Object.keys(TEMPLATES) as TemplateName[];
const init: Configure = (command, cli) => {
  command
    .argument('[folder]', 'Folder to create; its name becomes the name of the agent')
    .option('-t, --template <name>', `Template to start from: ${NAMES.join(', ')}`)
    .option('-e, --example <name>', 'Example to copy instead; --list names them')
    .option(
      '--from <folder>',
      'Existing project whose framework is found, and which becomes an agent; nothing is overwritten',
    )
    .option('--framework <name>', `With --from: one of ${FRAMEWORKS.map(({ name }) => name).join(', ')}`)
    .option('--entry <file:name>', 'With --from: the object to start, such as src/agent.py:graph')
    .option('--name <name>', 'With --from: name of the agent; without it, the name of the folder')
    .option('--list', 'List the templates and the examples')
    .addHelpText(
      'after',
      '\nExample:\n  $ platform init greeter --template hello-python\n  $ platform init --from ./my-agent',
    )
    .action(async (given, options) => {
      if (options.list) return listTemplates(cli);
      if (options.from !== undefined) {
        const other = given ?? options.template ?? options.example;
        if (other === undefined) return initFrom(cli, { ...options, from: options.from });
        throw new UsageError(`--from does not go with ${other}: it writes into the folder of the project.`);
      }
      const only = (['framework', 'entry', 'name'] as const).find((flag) => options[flag] !== undefined);
      if (only !== undefined) throw new UsageError(`--${only} needs --from, the folder of an existing project.`);
      if (options.template !== undefined && options.example !== undefined) {
        throw new UsageError('Specify either --template or --example, not both.');
      }
      const source =
        options.example === undefined
          ? { template: await templateOf(cli, options.template) }
          : { example: exampleOf(options.example) };
      const folder = resolve(cli.host.cwd, given ?? (await askFolder(cli)));
      const name = basename(folder);
      if (!AGENT_NAME.test(name)) {
        throw new UsageError(
          `Invalid agent name "${name}": use 2 to 50 lower-case letters, digits and single hyphens.`,
        );
      }
      const files = Object.entries(filesOf(source, name)).map(
        ([path, content]) => [join(dirname(folder), path), content] as const,
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
      for (const [path, content] of written) {
        await mkdir(dirname(path), { recursive: true });
        await writeFile(path, bytesOf(content), { flag: 'wx' });
      }
      const result = { name, ...source, folder, files: written.map(([path]) => shown(path)) };
      cli.output.result(result, () => `Created ${name} in ${shown(folder)} (${written.length} files).`);
      for (const other of missing) cli.output.note(`Created ${shown(other)} too: ${name} calls ${basename(other)}.`);
      const next = [...missing, folder].map((each) => `\`platform publish ${shown(each)}\``).join(', ');
      cli.output.note(`Next: ${next}. AGENTS.md describes each file.`);
    });
};

/** Returns the agent folder, beside `folder`, that contains a file. */
const siblingOf = (folder: string, path: string): string =>
  join(dirname(folder), relative(dirname(folder), path).split(/[\\/]/)[0]!);

const filesOf = (source: { template: TemplateName } | { example: string }, name: string) =>
  'template' in source ? templateFiles(source.template, name) : galleryFiles(source.example, name);

const bytesOf = (content: FileContent): string | Buffer =>
  typeof content === 'string' ? content : Buffer.from(content.base64, 'base64');

function listTemplates(cli: Cli): void {
  const templates = NAMES.map((name) => ({ name, summary: TEMPLATES[name].summary }));
  const list = { templates, examples: galleryOf(packedFiles()) };
  cli.output.result(list, ({ examples }) => {
    const lines = [
      ...templates.map(({ name, summary }) => ['--template', name, summary]),
      ...examples.map(({ name, summary }) => ['--example', name, summary.split(/[:;]|, and |\. /)[0]!]),
    ];
    return table(['option', 'name', 'description'], lines, cli.output.width);
  });
}

function exampleOf(given: string): string {
  const names = galleryOf(packedFiles()).map(({ name }) => name);
  if (names.includes(given)) return given;
  throw new UsageError(`Unknown example "${given}": choose from ${names.join(', ')}.`);
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
