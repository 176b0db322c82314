import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { UsageError } from '#client/usage-error.ts';
import { hasCode } from '#core/base/errors.ts';
import type { Cli, Configure } from '../shared/cli.ts';

/** MCP configuration files of coding agents, with the member that holds the servers. */
const CLIENTS = {
  claude: { path: '.mcp.json', member: 'mcpServers' },
  cursor: { path: '.cursor/mcp.json', member: 'mcpServers' },
  vscode: { path: '.vscode/mcp.json', member: 'servers' },
} as const;
type ClientName = keyof typeof CLIENTS;
const NAMES = Object.keys(CLIENTS) as ClientName[];

const BEGIN = '<!-- platform: written by `platform agent-setup` -->';
const END = '<!-- /platform -->';
const BLOCK = new RegExp(`${BEGIN}[\\s\\S]*?${END}`);
const GUIDE = `${BEGIN}
## Agents of the platform

- A folder with an \`agent.json\` (or a \`SKILL.md\`) is an agent. \`platform init NAME --template hello-python\` creates one.
- \`platform validate\` checks it, \`platform test\` runs its tests, \`platform publish\` publishes a new version.
- \`platform run NAME --data '{...}'\` calls it. \`platform logs NAME\` and \`platform trace NAME\` show the latest run.
- Results are JSON when stdout is not a terminal. \`platform docs\` shows the documentation, \`platform COMMAND --help\` has examples.
- The MCP server \`platform\` offers the same as tools.
- Never write keys into files: \`platform secrets set NAME\` reads a value from stdin.
${END}`;

interface Written {
  readonly path: string;
  readonly change: 'written' | 'updated' | 'unchanged';
}

const agentSetup: Configure = (command, cli) => {
  command
    .option('--client <list>', `Comma-separated list of coding agents: ${NAMES.join(', ')}`, 'claude')
    .addHelpText(
      'after',
      `
Adds \`platform mcp\` to the MCP configuration of coding agents in the current folder, and a section to AGENTS.md. The rest of
these files is left unchanged. No key is written: the server uses your profile. Safe to run again.

Example:
  $ platform agent-setup --client claude,cursor`,
    )
    .action(async ({ client }) => {
      const clients = client.split(',').map((name) => clientNamed(name.trim()));
      const { profile } = cli.options;
      // `--no` keeps npx from installing a package of that name from a registry.
      const args = ['--no', 'platform', ...(profile === undefined ? [] : ['--profile', profile]), 'mcp'];
      const planned = [
        ...(await Promise.all(clients.map((each) => withServer(cli, each, { command: 'npx', args })))),
        await withGuide(cli),
      ];
      const files = await Promise.all(planned.map((plan) => write(cli, plan)));
      cli.output.result({ files }, () => files.map(({ path, change }) => `${path}  ${change}`).join('\n'));
    });
};

function clientNamed(name: string): (typeof CLIENTS)[ClientName] {
  const found = NAMES.find((each) => each === name);
  if (found === undefined) throw new UsageError(`Unknown client "${name}": choose from ${NAMES.join(', ')}.`);
  return CLIENTS[found];
}

interface Plan {
  readonly path: string;
  readonly before: string | undefined;
  readonly after: string;
}

/** Throws UsageError for a file that is not a JSON object. */
async function withServer(
  cli: Cli,
  { path, member }: (typeof CLIENTS)[ClientName],
  server: { readonly command: string; readonly args: readonly string[] },
): Promise<Plan> {
  const before = await readIfThere(cli, path);
  const config = before === undefined ? {} : objectOf(path, before, server);
  const servers = (config[member] ?? {}) as Record<string, unknown>;
  const after = { ...config, [member]: { ...servers, platform: { type: 'stdio', ...server } } };
  const isSame = JSON.stringify(config) === JSON.stringify(after);
  return { path, before, after: isSame ? before! : `${JSON.stringify(after, null, 2)}\n` };
}

function objectOf(path: string, text: string, server: object): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw new UsageError(`${path} is not a JSON object. Nothing was written.`, {
    hint: `Add the server "platform" yourself: ${JSON.stringify(server)}`,
  });
}

async function withGuide(cli: Cli): Promise<Plan> {
  const path = 'AGENTS.md';
  const before = await readIfThere(cli, path);
  const guide = before?.includes('\r\n') ? GUIDE.replaceAll('\n', '\r\n') : GUIDE;
  const newline = guide === GUIDE ? '\n' : '\r\n';
  if (before === undefined) return { path, before, after: `${guide}\n` };
  if (BLOCK.test(before)) return { path, before, after: before.replace(BLOCK, () => guide) };
  const gap = before === '' || before.endsWith(newline) ? newline : newline + newline;
  return { path, before, after: `${before}${before === '' ? '' : gap}${guide}${newline}` };
}

async function readIfThere(cli: Cli, path: string): Promise<string | undefined> {
  try {
    return await readFile(join(cli.host.cwd, path), 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw new UsageError(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code}.`);
  }
}

async function write(cli: Cli, { path, before, after }: Plan): Promise<Written> {
  if (before === after) return { path, change: 'unchanged' };
  const at = join(cli.host.cwd, path);
  await mkdir(dirname(at), { recursive: true });
  await writeFile(at, after);
  return { path, change: before === undefined ? 'written' : 'updated' };
}

export default agentSetup;
