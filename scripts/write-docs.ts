/** `npm run docs`: writes the generated pages of `docs/`. Tests compare them with the code. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import * as z from 'zod';
import { AWS_SETTINGS } from '#aws/config.ts';
import { wholeProgram } from '#cli/program.ts';
import { openApiDocument } from '#core/api/openapi.ts';
import { routes } from '#core/api/routes.ts';
import { CORE_SETTINGS, type Settings } from '#core/base/config.ts';
import { DATA_VERSIONS } from '#core/base/data-versions.ts';
import { parseModels } from '#core/models/model-facts.ts';
import { LOCAL_SETTINGS } from '#local/config.ts';

const DOCS = new URL('../docs/', import.meta.url);

const SECTIONS: readonly (readonly [title: string, settings: Settings])[] = [
  ['Both hosts', CORE_SETTINGS],
  ['Local host only', LOCAL_SETTINGS],
  ['AWS only', AWS_SETTINGS],
];

/** Escapes text for a table cell. */
const cell = (text: string): string => text.replaceAll('|', '\\|');

/** Returns the default as the text of the variable, before the schema transforms it. */
function defaultOf(schema: z.ZodType): string {
  const { default: value } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return value === undefined || value === '' ? '' : `\`${value}\``;
}

export function settingsPage(): string {
  const sections = SECTIONS.map(([title, settings]) => {
    const rows = Object.values(settings).map(
      ({ variable, schema, about }) => `| \`${variable}\` | ${defaultOf(schema())} | ${cell(about)} |`,
    );
    return [`## ${title}`, '', '| variable | default | meaning |', '|---|---|---|', ...rows].join('\n');
  });
  return `${[
    '# Settings',
    'Every setting is an environment variable, read once at the start; an empty one counts as unset. On AWS the stacks set them. `npm run docs` makes this page from `core/base/config.ts`, `local/config.ts` and `aws/config.ts`.',
    ...sections,
  ].join('\n\n')}\n`;
}

/** Returns `core/base/route-segments.json`: the fixed first path segments of the route table. */
export function routeSegments(): string {
  const segments = routes.map(({ path }) => path.split('/')[1]!).filter((segment) => !segment.startsWith('{'));
  return `${JSON.stringify([...new Set(segments)].sort(), null, 2)}\n`;
}

export const openApiPage = (): string => `${JSON.stringify(openApiDocument(), null, 2)}\n`;

const MODELS = new URL('../core/models/models.json', import.meta.url);
const MODELS_TABLE = /(?<=<!-- models -->\n)[\s\S]*(?=<!-- \/models -->)/;

/** Returns `docs/models.md` with its table regenerated; the rest of the page is written by hand. */
export function modelsPage(page = readFileSync(new URL('models.md', DOCS), 'utf8')): string {
  const rows = Object.entries(parseModels(readFileSync(MODELS, 'utf8'))).flatMap(([id, facts]) => {
    const size = (tokens: number | undefined): string => tokens?.toLocaleString('en') ?? '';
    const prices = (facts.price ?? []).map(({ from, above, input, output, cache_read, cache_write }) => {
      const when = [from && `from ${from}`, above && `above ${size(above)} tokens`].filter(Boolean).join(', ');
      return { when, cells: [input, output, cache_read, cache_write].join(' | ') };
    });
    const first = prices.shift()?.cells ?? ' |  |  | ';
    return [
      `| \`${id}\` | ${size(facts.window)} | ${size(facts.max_output)} | ${first} |`,
      ...prices.map(({ when, cells }) => `| – ${when} |  |  | ${cells} |`),
    ];
  });
  const head = [
    '| model | window | answer | input | output | cache read | cache write |',
    '|---|---|---|---|---|---|---|',
  ];
  return page.replace(MODELS_TABLE, `\n${[...head, ...rows].join('\n')}\n\n`);
}

const COMMANDS_TABLE = /(?<=<!-- commands -->\n)[\s\S]*(?=<!-- \/commands -->)/;

/** Returns `docs/cli.md` with its table of commands regenerated. */
export async function cliPage(page = readFileSync(new URL('cli.md', DOCS), 'utf8')): Promise<string> {
  const program = await wholeProgram();
  const commands = program
    .createHelp()
    .visibleCommands(program)
    .filter((command) => command.name() !== 'help');
  const rows = commands.flatMap((command) => {
    // A command with options of its own does something without a subcommand, too.
    const own = command.commands.length === 0 || command.options.length > 0 ? [command] : [];
    const all = [...own, ...command.commands];
    const path = (each: typeof command) => (each === command ? each.name() : `${command.name()} ${each.name()}`);
    return all.map((each) => {
      const usage = `${path(each)} ${each.usage().replace('[options]', '').replace('[command]', '')}`
        .replaceAll(/ +/g, ' ')
        .trim();
      return `| \`${cell(usage)}\` | ${cell(each.description())} |`;
    });
  });
  return page.replace(COMMANDS_TABLE, `\n${['| command | what it does |', '|---|---|', ...rows].join('\n')}\n\n`);
}

const DATA_VERSIONS_TABLE = /(?<=<!-- data-versions -->\n)[\s\S]*(?=<!-- \/data-versions -->)/;

/** Returns `docs/deploy.md` with its table of data versions regenerated. */
export function deployPage(page = readFileSync(new URL('deploy.md', DOCS), 'utf8')): string {
  const rows = DATA_VERSIONS.map(
    ({ version, platform, changes, migration }) =>
      `| ${version} | ${platform} | ${cell(changes)} | ${cell(migration)} |`,
  );
  const head = ['| version | first platform | what is stored otherwise | how data gets there |', '|---|---|---|---|'];
  return page.replace(DATA_VERSIONS_TABLE, `\n${[...head, ...rows].join('\n')}\n\n`);
}

if (import.meta.main) {
  mkdirSync(DOCS, { recursive: true });
  writeFileSync(new URL('settings.md', DOCS), settingsPage());
  writeFileSync(new URL('../core/base/route-segments.json', DOCS), routeSegments());
  writeFileSync(new URL('openapi.json', DOCS), openApiPage());
  writeFileSync(new URL('models.md', DOCS), modelsPage());
  writeFileSync(new URL('deploy.md', DOCS), deployPage());
  writeFileSync(new URL('cli.md', DOCS), await cliPage());
}
