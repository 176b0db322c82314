import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import { Option } from '@commander-js/extra-typings';
import type { AgentFolder } from '#client/agent-folder.ts';
import { sendableBody } from '#client/upload-bundle.ts';
import { EXIT, UsageError } from '#client/usage-error.ts';
import { hasCode } from '#core/base/errors.ts';
import { sizeText } from '#core/base/size-text.ts';
import { bodyOfFolder } from '#core/manifest/publish-body.ts';
import { programProblems } from '../publishing/program-problems.ts';
import { type Published, publishFolder } from '../publishing/publish-folder.ts';
import { readFolder } from '../publishing/read-folder.ts';
import { undeclaredVariables } from '../publishing/undeclared.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { withCommands } from '../shared/hints.ts';
import { printable } from '../shared/output.ts';
import { signInAsJob } from '../signing-in/job-token.ts';

const publish: Configure = (command, cli) => {
  command
    .argument('[folder]', 'Folder of the agent', '.')
    .option('--dry-run', 'Validate without publishing')
    .option('--public', 'Make the agent public')
    .option('--dev', 'Publish to your personal version "dev" instead of a new version')
    .addOption(
      new Option(
        '--preview <name>',
        'Publish a preview such as pr-12: never latest, called as AGENT@<name>, gone after 7 days',
      ).conflicts('dev'),
    )
    .option('--wait', 'Wait for the evaluation if the version has to pass one (default: in a terminal)')
    .option('--no-wait', 'Do not wait for it')
    .addOption(
      new Option(
        '--trust <workspace>',
        'In CI: publish to this workspace, which trusts the job, without a key',
      ).conflicts('dev'),
    )
    .option('--audience <text>', 'Audience of the ID token of --trust (default: the address of the platform)')
    .addHelpText(
      'after',
      `
Does nothing if the latest version is identical. Files matched by .gitignore, tests and caches are not uploaded; change
that with bundle.include and bundle.exclude in agent.json.

Without a terminal, prints the name, version, URL and warnings as JSON; with --json, the whole agent.

Examples:
  $ platform publish ./hello
  $ platform publish ./hello --dry-run
  $ platform publish ./hello --preview pr-12
  $ platform publish ./hello --trust acme`,
    )
    .action(async (folder, { trust, audience, ...options }) => {
      if (trust === undefined && audience !== undefined) throw new UsageError('--audience needs --trust.');
      const acting = trust === undefined ? cli : await signInAsJob(cli, trust, audience);
      await publishAs(acting, folder, options);
    });
};

interface PublishOptions {
  readonly dryRun?: true | undefined;
  readonly public?: true | undefined;
  readonly dev?: true | undefined;
  readonly preview?: string | undefined;
  readonly wait?: boolean | undefined;
}

async function publishAs(cli: Cli, folder: string, options: PublishOptions): Promise<void> {
  const read = await readFolder(cli, folder);
  const body = { ...read.body, ...(options.public && { is_public: true }) };
  const lacking = await findMissingConfig(cli, resolve(cli.host.cwd, folder), read);
  if (options.dryRun) return dryRun(cli, folder, { ...read, body }, lacking);
  for (const text of warningsOf(lacking)) cli.output.warn(text);
  const client = await cli.client();
  const onInstall = (text: string) =>
    cli.output.note(cli.output.style('dim', printable(text).trimEnd() || 'installing dependencies'));
  const onUpload = cli.output.progress('uploading', read.bundle?.byteLength ?? 0);
  const { dev, preview } = options;
  const published = await publishFolder(client, { ...read, body }, { dev, preview, onInstall, onUpload });
  const isWaiting = published.failure === null && published.agent.gate?.status === 'pending';
  const agent =
    isWaiting && (options.wait ?? cli.isInteractive) ? await gateDecided(cli, published.agent) : published.agent;
  await report(cli, { ...published, agent }, lacking);
}

const GATE_POLL_MS = 1000;

/** Waits until the gate of a version is decided. Ctrl-C ends the waiting, not the evaluation. */
async function gateDecided(cli: Cli, published: Published['agent']): Promise<Published['agent']> {
  const client = await cli.client();
  const name = `${published.name}@${published.version}`;
  cli.output.note(`${name} becomes latest once it has passed its evaluation; waiting (Ctrl-C leaves it running)`);
  let agent = published;
  while (agent.gate?.status === 'pending') {
    await new Promise((resolve) => setTimeout(resolve, GATE_POLL_MS));
    agent = await client.getAgent({ params: { id: agent.id } });
  }
  return agent;
}

/** Returns what the gate of a version means for calls, as sentences; `undefined` if it is open or there is none. */
function gateText({ name, version, gate }: Published['agent'], eval_command: string): string | undefined {
  const called = `Call it as ${name}@${version} meanwhile.`;
  if (gate?.status === 'pending') return `latest waits until ${version} has passed its evaluation. ${called}`;
  if (gate?.status !== 'failed') return undefined;
  return `latest stays as it is: ${gate.reason} Evaluate it again with \`${eval_command}\`, or let an owner run \`platform api overrideGate\`.`;
}

interface MissingConfig {
  /** Names of required secrets that do not exist; absent if the key may not list secrets. */
  readonly missing_secrets?: readonly string[];
  /** Maps variables to the file that reads them. */
  readonly undeclared_variables: Readonly<Record<string, string>>;
  /** Problems of its code. */
  readonly problems: readonly string[];
}

/** Returns what a run would lack, as far as it is known in advance. */
async function findMissingConfig(cli: Cli, folder: string, { body, files }: AgentFolder): Promise<MissingConfig> {
  const required = Array.isArray(body.required_secrets) ? body.required_secrets.map(String) : [];
  const undeclared = undeclaredVariables(body, files);
  return {
    ...(await ifAllowed(async () => ({
      missing_secrets: required.length === 0 ? [] : await missingSecrets(cli, required),
    }))),
    undeclared_variables: Object.fromEntries(undeclared),
    problems: await programProblems({ folder, body, files }),
  };
}

/** Returns what a key that only publishes may not read; `undefined` for such a key. */
async function ifAllowed<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (hasCode(error, 'FORBIDDEN')) return undefined;
    throw error;
  }
}

async function missingSecrets(cli: Cli, required: readonly string[]): Promise<string[]> {
  const params = { workspace_id: await cli.workspaceId() };
  const { secrets } = await (await cli.client()).listSecrets({ params });
  return required.filter((name) => !secrets.some((secret) => secret.name === name));
}

function warningsOf({ problems, missing_secrets = [], undeclared_variables }: MissingConfig): string[] {
  return [
    ...problems,
    ...missing_secrets.map((name) => `The required secret ${name} is missing: run \`platform secrets set ${name}\`.`),
    ...Object.entries(undeclared_variables).map(
      ([name, path]) =>
        `${path} reads ${name}, which is not set in runs: add it to required_secrets or optional_secrets in agent.json.`,
    ),
  ];
}

async function dryRun(cli: Cli, folder: string, read: AgentFolder & { body: { name: string } }, lack: MissingConfig) {
  const { body, bundle, files } = read;
  const client = await cli.client();
  const checked = await client.validateAgent({ body: await sendableBody(client, bodyOfFolder(read)) });
  for (const warning of checked.warnings) cli.output.warn(await withCommands(warning));
  if (!checked.valid) {
    throw new UsageError(`${folder} cannot be published:\n${checked.errors.map((text) => `  - ${text}`).join('\n')}`);
  }
  for (const text of warningsOf(lack)) cli.output.warn(text);
  const preview = await client.previewAgent({ query: { name: body.name } });
  const planned = {
    ...preview,
    bundle_bytes: bundle?.byteLength ?? 0,
    bundle_sha256: bundle ? createHash('sha256').update(bundle).digest('hex') : null,
    files: [...(files?.keys() ?? [])],
    ...lack,
    dry_run: true,
  };
  cli.output.result(planned, () =>
    [
      `Would publish ${preview.org_slug}/${body.name}@${preview.next_version}${bundle ? ` (${sizeText(bundle.byteLength)} of code)` : ''}.`,
      ...planned.files.map((path) => `  ${path}`),
    ].join('\n'),
  );
}

async function report(cli: Cli, published: Published, lack: MissingConfig): Promise<void> {
  const { agent, services_updated, service_key, unchanged, failure, warnings } = published;
  for (const warning of warnings) cli.output.warn(await withCommands(warning));
  const name = `${agent.org_slug}/${agent.name}@${agent.version}`;
  if (failure !== null) {
    throw new UsageError(`Published ${name}, but its dependencies could not be installed:\n${printable(failure)}`, {
      hint: 'Fix them and publish again. Calls still use the previous version.',
      exitCode: 1,
    });
  }
  const held = gateText(agent, `platform eval ${agent.name}@${agent.version} --published`);
  const version =
    agent.version === 'dev' ? 'dev' : (agent.preview?.name ?? (held === undefined ? 'latest' : agent.version));
  const url = `${(await cli.connection()).url}/${agent.org_slug}/${agent.name}/${version}/${agent.default_endpoint}`;
  const moved = unchanged ? 0 : await ifAllowed(() => movedSchedules(cli, agent));
  const whole = {
    ...published,
    url,
    ...(moved !== undefined && { schedules_updated: moved }),
    ...lack,
    warnings: [...warnings, ...warningsOf(lack)],
  };
  cli.output.result(
    cli.options.json ? whole : shortOf(whole),
    () => `${unchanged ? 'No changes:' : 'Published'} ${name}\n${url}`,
  );
  if (agent.preview) cli.output.note(`The preview ${agent.preview.name} ends at ${agent.preview.ends_at}.`);
  if (held !== undefined && agent.gate?.status === 'pending') cli.output.note(held);
  if (service_key !== undefined && !cli.output.isJson) {
    cli.output.note(`Service key of the agent (shown only once): ${service_key}`);
  }
  if (moved !== undefined && moved > 0)
    cli.output.note(`${moved} ${moved === 1 ? 'schedule now runs' : 'schedules now run'} this version.`);
  if (services_updated > 0) {
    cli.output.note(
      `${services_updated} ${services_updated === 1 ? 'service was' : 'services were'} updated to this version.`,
    );
  }
  if (agent.type !== 'skill') {
    cli.output.note(`Run it with \`platform run ${agent.name}${version === 'latest' ? '' : `@${version}`}\`.`);
  }
  if (held !== undefined && agent.gate?.status === 'failed') {
    const exitCode = agent.gate.verdict === 'inconclusive' ? EXIT.inconclusive : EXIT.failed;
    throw new UsageError(held, { exitCode });
  }
}

/** Returns what logs of scripts need; `--json` prints all members. */
function shortOf<T extends Published & { readonly problems: unknown }>({ agent, problems: _, ...rest }: T) {
  const { id, org_slug, name, version, is_public, runnable, gate, preview } = agent;
  return { agent: { id, org_slug, name, version, is_public, runnable, gate, preview }, ...rest };
}

/** Returns the number of schedules that run this version. */
async function movedSchedules(cli: Cli, { name, version, type }: Published['agent']): Promise<number> {
  if (version === 'dev' || type === 'skill') return 0;
  const params = { workspace_id: await cli.workspaceId() };
  const { schedules } = await (await cli.client()).listSchedules({ params, query: { agent_name: name } });
  return schedules.filter(({ agent_version, enabled }) => enabled && agent_version === version).length;
}

export default publish;
