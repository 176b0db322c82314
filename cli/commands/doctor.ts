import type { OwnCheck } from '#client/own-platform.ts';
import { EXIT, UsageError } from '#client/usage-error.ts';
import { API_VERSION } from '#core/api/api-version.ts';
import { VERSION } from '#core/base/version.ts';
import { DATA_OPTION, ownPlatformIfHere } from '../own-platform.ts';
import type { Configure } from '../shared/cli.ts';
import { failureOf } from '../shared/failure.ts';

interface OpenApi {
  readonly info: { readonly version: string };
}

/** Returns the host of a proxy without its password. */
const hostOf = (proxy: string): string => (URL.canParse(proxy) ? new URL(proxy).host : 'an invalid URL');

const MAX_CLOCK_DIFFERENCE_MS = 60_000;
const HEALTH_MS = 10_000;

const doctor: Configure = (command, cli) => {
  command
    .option(...DATA_OPTION)
    .addHelpText('after', '\nExample:\n  $ platform doctor')
    .action(async ({ data }) => {
      const checks: OwnCheck[] = [
        { name: 'command line', ok: true, detail: `${VERSION}, Node ${process.versions.node}` },
      ];
      const connection = await cli.connection();
      const limit = () => ({ signal: AbortSignal.timeout(cli.wire.timeoutMs ?? HEALTH_MS) });
      let status: number = EXIT.failed;
      const check = async (name: string, work: () => Promise<string>) => {
        try {
          checks.push({ name, ok: true, detail: await work() });
        } catch (error) {
          const { message, hint, exitCode } = await failureOf(error, connection);
          checks.push({ name, ok: false, detail: message, hint });
          if (name === 'platform') status = exitCode;
        }
      };
      await check('platform', async () => {
        const response = await cli.host.fetch(`${connection.url}/health`, limit());
        if (!response.ok) throw new Error(`${connection.url} responded with HTTP ${response.status}`);
        const difference = Math.abs(Date.parse(response.headers.get('date') ?? '') - Date.now());
        if (difference > MAX_CLOCK_DIFFERENCE_MS) {
          throw new UsageError(
            `The clocks of this machine and the platform differ by ${Math.round(difference / 1000)} s.`,
            {
              hint: 'Check the clock of this machine.',
            },
          );
        }
        return connection.url;
      });
      const answers = checks.at(-1)!.ok;
      if (answers) {
        await check('api version', async () => {
          const description = await cli.host.fetch(`${connection.url}/openapi.json`, limit());
          const { info } = (await description.json()) as OpenApi;
          if (info.version === API_VERSION) return info.version;
          throw new UsageError(`The platform has API version ${info.version}, this CLI has ${API_VERSION}.`, {
            hint: 'Some commands may fail: install the CLI version that matches the platform.',
          });
        });
      }
      const proxy = cli.host.env.HTTPS_PROXY ?? cli.host.env.HTTP_PROXY;
      if (proxy !== undefined) {
        const isUsed = cli.host.env.NODE_USE_ENV_PROXY === '1';
        const detail = isUsed ? 'used' : 'not used: set NODE_USE_ENV_PROXY=1 to use it';
        checks.push({ name: 'proxy', ok: true, detail: `${hostOf(proxy)}, ${detail}` });
      }
      // Without an answer, these checks would add nothing.
      if (answers) {
        await check('key', async () => {
          const { user } = await (await cli.client()).getMe({});
          return `${user.email} (from ${connection.source})`;
        });
        await check('workspace', async () => (await cli.org()).slug);
      }
      const own = await ownPlatformIfHere(cli, data);
      if (own && (!answers || (await own.status()).data_version !== null)) checks.push(...(await own.checks()));
      const isWell = checks.every(({ ok }) => ok);
      cli.output.result({ ok: isWell, checks }, () =>
        checks
          .flatMap(({ name, ok, detail, hint }) => [
            `${ok ? cli.output.style('green', '✓') : cli.output.style('red', '✗')} ${name.padEnd(12)}  ${detail}`,
            ...(hint === undefined ? [] : [`  ${cli.output.style('cyan', 'hint:')} ${hint}`]),
          ])
          .join('\n'),
      );
      if (!isWell) throw new UsageError('Some checks failed.', { exitCode: status });
    });
};

export default doctor;
