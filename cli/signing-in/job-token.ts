import { EXIT, UsageError } from '#client/usage-error.ts';
import type { Cli } from '../shared/cli.ts';

/** Time limit of the request for a token to the CI system. */
const TIMEOUT_MS = 20_000;

/**
 * Exchanges the ID token of this CI job for a key that may publish, and returns a copy of `cli` with it
 * (`docs/interface/trusts.md`). Neither the token nor the key is stored, printed or given to another process.
 *
 * @param workspace Slug or id of the workspace that trusts the job.
 * @param audience Audience of the token. @default - the address of the platform
 */
export async function signInAsJob(cli: Cli, workspace: string, audience: string | undefined): Promise<Cli> {
  const { url } = await cli.connection();
  const token = await jobToken(cli, audience ?? url);
  const client = await cli.withConnection({ url, source: 'CI job' }).anyone();
  const answer = await client.exchangeTrustToken({ body: { workspace, token } });
  const { api_key: key, workspace_id } = answer;
  return cli.withConnection({ url, key, workspace: workspace_id, source: `trust ${answer.trust_id}` });
}

/** Returns the ID token of this job: the one in `PLATFORM_ID_TOKEN`, or a new one of GitHub Actions. */
async function jobToken({ host }: Cli, audience: string): Promise<string> {
  const { PLATFORM_ID_TOKEN: given, ACTIONS_ID_TOKEN_REQUEST_URL: address, ...env } = host.env;
  if (given) return given.trim();
  if (address === undefined || env.ACTIONS_ID_TOKEN_REQUEST_TOKEN === undefined) {
    throw new UsageError('This CI job has no ID token.', {
      hint:
        env.GITHUB_ACTIONS === 'true'
          ? 'Give the job the permission `id-token: write`. Jobs for pull requests of forks do not get it.'
          : 'Set PLATFORM_ID_TOKEN to the token of the job (docs/ci.md).',
      exitCode: EXIT.unauthorized,
    });
  }
  const url = URL.parse(address);
  if (url === null) throw new UsageError('ACTIONS_ID_TOKEN_REQUEST_URL is not a web address.');
  url.searchParams.set('audience', audience);
  const headers = { authorization: `Bearer ${env.ACTIONS_ID_TOKEN_REQUEST_TOKEN}`, accept: 'application/json' };
  let value: unknown;
  let status: number | undefined;
  try {
    const answer = await host.fetch(url, { headers, redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MS) });
    status = answer.status;
    if (answer.ok) ({ value } = (await answer.json()) as { readonly value?: unknown });
  } catch {
    // Said below: the error may name the address, whose query belongs to the job.
  }
  if (typeof value === 'string' && value !== '') return value;
  throw new UsageError(`GitHub gave the job no ID token${status === undefined ? '' : ` (status ${status})`}.`, {
    hint: 'Run the job again.',
    exitCode: EXIT.network,
  });
}
