import { PlatformError } from '#core/base/errors.ts';
import { bearerOf } from '#core/http/bearer.ts';
import type { Handlers } from '#core/http/route.ts';
import type { BlobLinks } from '#core/ports/blobs.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import type { BootBlob, BootDocument, InstanceReport } from '#core/ports/service-host.ts';
import { type BootDeps, bootDocument } from '../boot.ts';
import { authenticateInstance } from '../boot-tokens.ts';
import { type ReportDeps, takeReports } from '../reports.ts';
import type { instanceRoutes } from './routes.ts';

/** Reported ends of an app may be at most this far ahead of the platform's clock. */
const MAX_AHEAD_MS = 300_000;

export const instanceHandlers = (
  deps: BootDeps & ReportDeps & Pick<AllDeps, 'askForBoot' | 'blobLinks'>,
): Handlers<typeof instanceRoutes> => ({
  async bootInstance({ params, request }) {
    const document = await documentFor(deps, params.service_id, bearerOf(request.headers.get('authorization')));
    const { bundle, layer } = document;
    return {
      status: 200,
      body: {
        ...document,
        ...(bundle && { bundle: await linked(deps.blobLinks, bundle) }),
        ...(layer && { layer: await linked(deps.blobLinks, layer) }),
      },
      headers: { 'cache-control': 'no-store' },
    };
  },

  async reportInstance({ params, request, body: { reports } }) {
    const { service, revision } = await authenticateInstance(
      deps,
      params.service_id,
      bearerOf(request.headers.get('authorization')),
    );
    for (const { serviceId, revision: told } of reports) {
      if (serviceId !== service.id) throw refuse('serviceId', 'must be the service of the path, whose token was sent');
      if (told !== revision && told !== 0) throw refuse('revision', 'must be the revision in the token, or 0');
    }
    const now = deps.clock.now();
    await takeReports(
      deps,
      reports.map((report) => ({ ...withTimesFrom(report, service.createdAt, now), revision })),
    );
    return { status: 200, body: {} };
  },
});

async function documentFor(
  deps: BootDeps & Pick<AllDeps, 'askForBoot'>,
  serviceId: string,
  token: string,
): Promise<BootDocument> {
  if (deps.askForBoot === undefined) return bootDocument(deps, serviceId, token);
  // The other process checks the token, too. Requests without a valid one do not reach it.
  await authenticateInstance(deps, serviceId, token);
  return deps.askForBoot(serviceId, token);
}

/** Limits the times of a report, because usage is computed from them and the clock of the instance may be wrong. */
function withTimesFrom(report: InstanceReport, createdAt: number, now: number): InstanceReport {
  const at = Math.min(report.at, now);
  const startedAt = Math.max(createdAt, Math.min(report.startedAt, at));
  const { lastEnd } = report;
  return { ...report, at, startedAt, lastEnd: lastEnd && { ...lastEnd, at: Math.min(lastEnd.at, now + MAX_AHEAD_MS) } };
}

const linked = async (links: BlobLinks | undefined, blob: BootBlob): Promise<BootBlob> =>
  links === undefined ? blob : { ...blob, url: await links.get(blob.key) };

const refuse = (field: string, why: string): PlatformError =>
  new PlatformError('INVALID_INPUT', `body.reports: ${field} ${why}.`);
