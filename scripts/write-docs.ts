/** `npm run docs`: writes the pages of `docs/` that are generated from the code. Tests compare them. */
import { mkdirSync, writeFileSync } from 'node:fs';
import * as z from 'zod';
import { AWS_SETTINGS } from '#aws/config.ts';
import { openApiDocument } from '#core/api/openapi.ts';
import { CORE_SETTINGS, type Settings } from '#core/base/config.ts';
import { LOCAL_SETTINGS } from '#local/config.ts';

const DOCS = new URL('../docs/', import.meta.url);

const SECTIONS: readonly (readonly [title: string, settings: Settings])[] = [
  ['Both hosts', CORE_SETTINGS],
  ['Local host only', LOCAL_SETTINGS],
  ['AWS only', AWS_SETTINGS],
];

/** Inside a table cell. */
const cell = (text: string): string => text.replaceAll('|', '\\|');

/** The default as text of the variable, before the schema transforms it. */
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

export const openApiPage = (): string => `${JSON.stringify(openApiDocument(), null, 2)}\n`;

if (import.meta.main) {
  mkdirSync(DOCS, { recursive: true });
  writeFileSync(new URL('settings.md', DOCS), settingsPage());
  writeFileSync(new URL('openapi.json', DOCS), openApiPage());
}
