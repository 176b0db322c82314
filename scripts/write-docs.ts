/** Writes the pages of `docs/` that are made from the code: `npm run docs`. Tests compare them. */
import { mkdirSync, writeFileSync } from 'node:fs';
import * as z from 'zod';
import { openApiDocument } from '#core/api/openapi.ts';
import { SETTINGS } from '#core/base/config.ts';

const DOCS = new URL('../docs/', import.meta.url);

const HOSTS = {
  both: 'Both hosts',
  local: 'Local host only',
  aws: 'AWS only',
} as const;

/** Inside a table cell. */
const cell = (text: string): string => text.replaceAll('|', '\\|');

/** As one would write it into the variable, which the schema may then make something else of. */
function defaultOf(schema: z.ZodType): string {
  const { default: value } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return value === undefined || value === '' ? '' : `\`${value}\``;
}

export function settingsPage(): string {
  const sections = Object.entries(HOSTS).map(([host, title]) => {
    const rows = Object.values(SETTINGS)
      .filter((setting) => setting.host === host)
      .map((setting) => `| \`${setting.variable}\` | ${defaultOf(setting.schema())} | ${cell(setting.about)} |`);
    return [`## ${title}`, '', '| variable | default | meaning |', '|---|---|---|', ...rows].join('\n');
  });
  return `${[
    '# Settings',
    'Every setting is an environment variable, read once at the start; an empty one counts as unset. On AWS the stacks set them. `npm run docs` makes this page from `core/base/config.ts`.',
    ...sections,
  ].join('\n\n')}\n`;
}

export const openApiPage = (): string => `${JSON.stringify(openApiDocument(), null, 2)}\n`;

if (import.meta.main) {
  mkdirSync(DOCS, { recursive: true });
  writeFileSync(new URL('settings.md', DOCS), settingsPage());
  writeFileSync(new URL('openapi.json', DOCS), openApiPage());
}
