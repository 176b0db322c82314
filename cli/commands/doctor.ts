import type { Configure } from '../cli.ts';
import { EXIT, failureOf, UsageError } from '../failure.ts';
import { VERSION } from '../version.ts';

interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
  readonly hint?: string;
}

const MAX_CLOCK_DIFFERENCE_MS = 60_000;

const doctor: Configure = (command, cli) => {
  command.addHelpText('after', '\nExample:\n  $ platform doctor').action(async () => {
    const checks: Check[] = [{ name: 'command line', ok: true, detail: `${VERSION}, Node ${process.versions.node}` }];
    const connection = await cli.connection();
    const check = async (name: string, work: () => Promise<string>) => {
      try {
        checks.push({ name, ok: true, detail: await work() });
      } catch (error) {
        const { message, hint } = failureOf(error, connection.url);
        checks.push({ name, ok: false, detail: message, hint });
      }
    };
    await check('platform', async () => {
      const response = await cli.host.fetch(`${connection.url}/health`);
      if (!response.ok) throw new Error(`${connection.url} answers HTTP ${response.status}`);
      const difference = Math.abs(Date.parse(response.headers.get('date') ?? '') - Date.now());
      if (difference > MAX_CLOCK_DIFFERENCE_MS) {
        throw new UsageError(`The clocks differ by ${Math.round(difference / 1000)} s.`, {
          hint: 'Set this machine’s clock.',
        });
      }
      return connection.url;
    });
    await check('key', async () => {
      const { user } = await (await cli.client()).getMe({});
      return `${user.email} (from ${connection.source})`;
    });
    await check('workspace', async () => (await cli.org()).slug);
    const isWell = checks.every(({ ok }) => ok);
    cli.output.result({ ok: isWell, checks }, () =>
      checks
        .flatMap(({ name, ok, detail, hint }) => [
          `${ok ? cli.output.style('green', '✓') : cli.output.style('red', '✗')} ${name.padEnd(12)}  ${detail}`,
          ...(hint === undefined ? [] : [`  ${cli.output.style('cyan', 'hint:')} ${hint}`]),
        ])
        .join('\n'),
    );
    if (!isWell) throw new UsageError('Not everything works.', { exitCode: EXIT.failed });
  });
};

export default doctor;
