import { Command, CommanderError, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { EXIT, UsageError } from '#client/usage-error.ts';
import { VERSION } from '#core/base/version.ts';
import { COMMANDS } from './commands.ts';
import { Cli, type GlobalOptions, type Host } from './shared/cli.ts';
import { failureOf, failureText } from './shared/failure.ts';

const MORE = `
Results go to stdout, as JSON with --json or when stdout is not a terminal; everything else goes to stderr.

Examples:
  $ platform login
  $ platform publish ./my-agent
  $ platform run my-agent --data '{"name": "Ada"}'
  $ platform runs --status failed
`;

/** Runs one command line. Returns the exit status; never throws. */
export async function runCli(host: Host): Promise<number> {
  const cli = new Cli(host);
  try {
    const program = await buildProgram(cli);
    await program.parseAsync([...host.argv], { from: 'user' });
    return 0;
  } catch (error) {
    return fail(cli, error);
  }
}

/** Returns the program with all commands, for generators that use their help. */
export function wholeProgram(): Promise<CommandUnknownOpts> {
  const nothing = { write: () => {} };
  const host = { argv: ['complete'], env: {}, stdout: nothing, stderr: nothing };
  return buildProgram(new Cli(host as unknown as Host));
}

/** Builds the program with all command names. Loads options and subcommands only for the command in the arguments. */
async function buildProgram(cli: Cli): Promise<CommandUnknownOpts> {
  const { argv, stdout, stderr } = cli.host;
  const completes = ['completion', 'complete'].includes(argv[0]!);
  const program = new Command('platform')
    .description('Publish, run and watch agents.')
    .version(VERSION, '-V, --version', 'Print the version')
    .helpOption('-h, --help', 'Show help')
    .helpCommand('help [command]', 'Show help for a command')
    .option('--json', 'Print results as JSON')
    .option('--profile <name>', 'Use this profile')
    .option('--url <address>', 'Base URL of the platform')
    .option('--workspace <slug or id>', 'Workspace to use')
    .option('-q, --quiet', 'Print only results, warnings and errors')
    .option('--verbose', 'Log each request to stderr, without secrets')
    .option('--timeout <seconds>', 'Request timeout (default: 60; calls wait until the run ends)', readSeconds)
    .option('--no-color', 'Disable color output')
    .option('-y, --yes', 'Skip confirmation prompts')
    .addHelpText('after', MORE)
    .showHelpAfterError('Run `platform --help` to list the commands.')
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      // `fail` prints each error once.
      writeErr: () => {},
      getOutHelpWidth: () => stdout.columns ?? 80,
      getErrHelpWidth: () => stderr.columns ?? 80,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .exitOverride()
    .hook('preAction', (_, action) => cli.use(globalsOf(action)));
  for (const [group, rows] of Object.entries(COMMANDS)) {
    for (const { name, summary, load } of rows) {
      if (completes && name === 'completion') continue;
      const command = program.command(name).description(summary).helpGroup(group);
      if (completes || argv.includes(name)) (await load()).default(command, cli);
    }
  }
  if (completes) {
    const { default: tab } = await import('@bomb.sh/tab/commander');
    // It asks for the type of plain commander; the object is the same.
    tab(program as unknown as Parameters<typeof tab>[0], { completionCommandName: 'completion' });
  }
  return program;
}

/** Returns only the global flags: flags of a command may have the same names as other settings. */
function globalsOf(action: CommandUnknownOpts): GlobalOptions {
  const all = action.optsWithGlobals() as GlobalOptions;
  const { json, profile, url, workspace, quiet, verbose, timeout, color, yes } = all;
  return { json, profile, url, workspace, quiet, verbose, timeout, color, yes };
}

function readSeconds(text: string): number {
  const seconds = Number(text);
  if (seconds > 0 && seconds <= MAX_SECONDS) return seconds;
  throw new UsageError(`Invalid --timeout "${text}": must be a number of seconds, at most 86400.`);
}
const MAX_SECONDS = 24 * 3600;

async function fail(cli: Cli, error: unknown): Promise<number> {
  const failure = await failureOf(error, cli.last);
  if (error instanceof CommanderError && error.exitCode === 0) return 0;
  if (cli.output.isJson) {
    const { exitCode, docsUrl: _, ...shown } = failure;
    cli.output.error(JSON.stringify({ error: { ...shown.detail, ...shown, detail: undefined }, exit_code: exitCode }));
  } else {
    cli.output.error(failureText(cli, failure));
  }
  return failure.exitCode === 0 ? EXIT.failed : failure.exitCode;
}
