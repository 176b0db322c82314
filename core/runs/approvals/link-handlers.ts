import type * as z from 'zod';
import { audited, LINK } from '#core/accounts/audit/log.ts';
import { isFromOwnPage } from '#core/accounts/sign-in/own-pages.ts';
import { answerPage, type PageAnswer, wantsHtml } from '#core/accounts/sign-in/page-answers.ts';
import { checkStays } from '#core/accounts/workspaces/moving.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { hasCode, httpStatusOf, isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { mediaType, parseJson, readJson } from '#core/http/body.ts';
import { readForm } from '#core/http/form.ts';
import type { HttpRequest } from '#core/http/message.ts';
import type { Handlers, Incoming } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Approval, approvalIdOf } from './approval.ts';
import { type DecideDeps, decideAsked } from './decide.ts';
import { decidedPage, LINK_HEADERS, linkPage } from './link-page.ts';
import { findLinked } from './links.ts';
import { type approvalLinkRoutes, linkDecisionBody } from './routes.ts';
import { findApproval } from './store.ts';

export type LinkDeps = DecideDeps & Pick<Deps, 'main'>;
type DecideRow = Extract<(typeof approvalLinkRoutes)[number], { operationId: 'decideByLink' }>;

/** An answer may have as many characters as a question, in any script. */
const MAX_BODY = { bytes: 64 * 1024 };

/** What the links about calls that wait show and do (`docs/interface/approvals.md#links`). A GET never decides. */
export function approvalLinkHandlers(deps: LinkDeps): Handlers<typeof approvalLinkRoutes> {
  /** Throws NOT_FOUND, and CONFLICT if it was decided elsewhere, or if its run has ended. */
  async function open(token: string): Promise<Approval> {
    const approval = await findLinked(deps, token);
    if (approval.status !== 'waiting') throw closed(approval);
    return approval;
  }

  async function decided(incoming: Incoming<DecideRow>, approval: Approval): Promise<Approval> {
    const { requestUuid, address, request } = incoming;
    const sent = await sentIn(request);
    const { workspaceId } = approval;
    const workspace = await findWorkspace(deps, workspaceId);
    if (workspace === undefined) throw closed(approval);
    checkStays(workspace, 'change');
    const subject = { workspaceId, operation: 'decideByLink', audit: AUDIT, by: { userId: LINK } };
    const params = { approval_id: approvalIdOf(approval) };
    const change = { params, body: sent, requestUuid, address };
    const { body } = await audited(deps, subject, change, async () => {
      try {
        return { body: await decideAsked(deps, workspace, approval, { sent: { ...sent, for: 'this' }, by: LINK }) };
      } catch (error) {
        // Its text names people of the workspace.
        throw hasCode(error, 'CONFLICT') ? closed((await findApproval(deps, approval)) ?? approval) : error;
      }
    });
    return body;
  }

  async function page(request: HttpRequest, make: () => Promise<PageAnswer>) {
    const answer = await answerPage(request, make);
    return { ...answer, headers: { ...answer.headers, ...LINK_HEADERS } };
  }

  return {
    async getApprovalLink({ params, request, responseHeaders }) {
      Object.assign(responseHeaders, LINK_HEADERS);
      if (wantsHtml(request)) return page(request, async () => linkPage(await open(params.token)));
      return { status: 200, body: viewOf(await open(params.token)) };
    },

    async decideByLink(incoming) {
      const { params, request, responseHeaders } = incoming;
      Object.assign(responseHeaders, LINK_HEADERS);
      if (!wantsHtml(request)) {
        refuseOtherPages(deps, request);
        return { status: 200, body: viewOf(await decided(incoming, await open(params.token))) };
      }
      return page(request, async () => {
        refuseOtherPages(deps, request);
        const approval = await open(params.token);
        try {
          return decidedPage(await decided(incoming, approval));
        } catch (error) {
          if (!isPlatformError(error) || error.code !== 'INVALID_INPUT') throw error;
          return { status: httpStatusOf(error.code), content: linkPage(approval, error.message) };
        }
      });
    },
  };
}

const AUDIT = { request: ['decision'] } as const;

/** The token is what decides: this only keeps other pages from sending a form that a person did not see. */
function refuseOtherPages({ config }: Pick<Deps, 'config'>, { headers }: HttpRequest): void {
  const isBrowser = headers.has('sec-fetch-site') || headers.has('origin');
  if (!isBrowser || isFromOwnPage(config, headers, ['same-origin'])) return;
  throw new PlatformError('FORBIDDEN', 'Another page sent this decision: open the link, and decide there.');
}

const closed = ({ status }: Approval): PlatformError =>
  new PlatformError(
    'CONFLICT',
    status === 'cancelled' || status === 'waiting'
      ? 'There is nothing to decide any more: the run has ended, or the time is over.'
      : `Somebody else has decided already: it was ${status}.`,
  );

/** Reads the decision, from a form or JSON. Throws INVALID_INPUT, UNSUPPORTED_TYPE and DOCUMENT_TOO_LARGE. */
async function sentIn(request: HttpRequest): Promise<z.output<typeof linkDecisionBody>> {
  const isForm = mediaType(request) === 'application/x-www-form-urlencoded';
  const body = isForm ? fieldsOf(await readForm(request, MAX_BODY)) : ((await readJson(request, MAX_BODY)) ?? {});
  const { success, data, error } = linkDecisionBody.safeParse(body);
  if (success) return data;
  const problems = error.issues.slice(0, 10).map(({ path, message }) => `${['body', ...path].join('.')}: ${message}`);
  throw new PlatformError('INVALID_INPUT', problems.join('; '));
}

/** A form sends every field, and ends of lines as two characters. */
function fieldsOf({ reason, answer_json: json, ...fields }: Record<string, string>): Record<string, Json> {
  const text = reason?.replaceAll('\r\n', '\n').trim();
  return {
    ...fields,
    ...(text && { reason: text }),
    ...(fields.answer !== undefined && { answer: fields.answer.replaceAll('\r\n', '\n') }),
    ...(json !== undefined && { answer: parseJson(Buffer.from(json), 'answer') }),
  };
}

const viewOf = (approval: Approval) => ({
  agent_name: approval.agentName,
  agent_version: approval.agentVersion,
  kind: approval.kind,
  status: approval.status,
  tool: approval.tool,
  arguments: approval.args,
  question: approval.question ?? null,
  options: approval.options === undefined ? null : [...approval.options],
  schema: approval.schema ?? null,
  asked_at: approval.askedAt,
  expires_at: isoTime(approval.expiresAt),
  decided_at: approval.decidedAt,
});
