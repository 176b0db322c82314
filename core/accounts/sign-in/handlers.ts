import type { Caller } from '#core/base/caller.ts';
import { httpStatusOf, isPlatformError, PlatformError } from '#core/base/errors.ts';
import { readForm } from '#core/http/form.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import { PAGE_HEADERS } from '#core/http/page-headers.ts';
import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { AllDeps, Deps } from '#core/ports/deps.ts';
import { hashKey, isKey } from '../keys/key-format.ts';
import { keysOf } from '../keys/own-keys.ts';
import { type ApiKey, checkUsable, findKey, findKeyOf, revokeKey } from '../keys/store.ts';
import { isServiceKey } from '../service-keys/key-format.ts';
import { findUser } from '../workspaces/store.ts';
import { beginSession } from './begin-session.ts';
import {
  agree,
  askForKey,
  type CliRequest,
  exchange,
  findRequest,
  goneRequest,
  refuseRequest,
} from './cli-requests.ts';
import { CLI_PATH, createCode, pathIn, pathOf, SIGN_IN_PATH, takeCode } from './codes.ts';
import { providerLinkOf } from './oidc/provider-link.ts';
import { isFromOwnPage, refuseForeignPages, sessionCookie, sessionCookieOf } from './own-pages.ts';
import { answerPage, wantsHtml } from './page-answers.ts';
import { backToCliPage, cliPage, refusedPage, SIGN_IN_SCRIPT, signedInPage, signInPage, tokenPage } from './pages.ts';
import type { signInRoutes } from './routes.ts';
import { endSession, findSession, listSessions, type Session } from './sessions.ts';

type SignInDeps = Pick<Deps, 'main' | 'counters' | 'clock' | 'ids' | 'config'> &
  Partial<Pick<AllDeps, 'signInProvider'>>;
type SignInHandlers = Omit<Handlers<typeof signInRoutes>, 'getSignInOptions' | 'startOidc' | 'finishOidc'>;
/** A sign-in form has a key or a code. */
const MAX_FORM = { bytes: 16 * 1024 };
type PageOperation = 'showSignIn' | 'signIn' | 'getSignInScript' | 'showCliSignIn' | 'answerCliSignIn';

const shown = ({ id, keyId, createdAt, lastSeenAt, expiresAt, userAgent }: Session) => ({
  id,
  key_id: keyId,
  created_at: createdAt,
  last_seen_at: lastSeenAt,
  expires_at: expiresAt,
  user_agent: userAgent,
});

export const signInHandlers = (deps: SignInDeps): SignInHandlers => ({
  ...sessionHandlers(deps),
  ...pageHandlers(deps),
});

function sessionHandlers(deps: SignInDeps): Omit<SignInHandlers, PageOperation> {
  return {
    async createSession({ body, request: { headers } }) {
      refuseForeignPages(deps.config, headers);
      const { key, to = null } =
        'code' in body ? await byCode(deps, body.code) : { key: await byKey(deps, body.api_key), to: undefined };
      const { session, setCookie } = await beginSession(deps, headers, key);
      const privately = { 'set-cookie': setCookie, 'cache-control': 'no-store' };
      return { status: 201, body: { session: shown(session), show: to }, headers: privately };
    },

    async getSession({ caller, request: { headers } }) {
      const session = await sessionOf(deps, headers);
      const user = await findUser(deps, caller.userId);
      const { id, slug, name } = caller.workspace;
      return {
        status: 200,
        body: {
          session: session ? shown(session) : null,
          user: { id: caller.userId, email: user?.email ?? '', display_name: user?.displayName ?? '' },
          workspace: { id, slug, name },
          scope: caller.limits?.scope ?? 'manage',
        },
        headers: { 'cache-control': 'no-store' },
      };
    },

    async deleteSession({ request: { headers } }) {
      const session = await sessionOf(deps, headers);
      if (session === undefined) return { status: 200, body: { deleted: false } };
      await endSession(deps, session);
      return { status: 200, body: { deleted: true }, headers: { 'set-cookie': sessionCookie(deps.config, '', 0) } };
    },

    async createSignInCode({ caller, body: { show, id } }) {
      if ((show === undefined) !== (id === undefined)) {
        throw new PlatformError('INVALID_INPUT', 'body: give both show and id, or neither.');
      }
      const key = await findKeyOf(deps, caller.userId, caller.keyId);
      checkUsable(deps, key);
      const to = show && pathOf({ kind: show, id: id!, workspace: caller.workspace });
      const { code, url, expires } = await createCode(deps, key, { to });
      return {
        status: 201,
        body: { code, url, expires_at: isoTime(expires) },
        headers: { 'cache-control': 'no-store' },
      };
    },

    async listKeySessions({ caller, params: { id } }) {
      await checkOwnKey(deps, caller, id);
      return { status: 200, body: { sessions: (await listSessions(deps, id)).map(shown) } };
    },

    async deleteKeySession({ caller, params: { id, session_id } }) {
      await checkOwnKey(deps, caller, id);
      const session = (await listSessions(deps, id)).find((each) => each.id === session_id);
      if (session === undefined) {
        throw new PlatformError('NOT_FOUND', `The API key has no session with the id "${session_id.slice(0, 64)}".`);
      }
      await endSession(deps, session);
      return { status: 200, body: { deleted: true, id: session_id } };
    },

    async cliInit({ body, address }) {
      const { state, expires } = await askForKey(deps, {
        redirectPort: body.redirect_port,
        codeChallenge: body.code_challenge,
        clientName: body.client_name,
        workspace: body.workspace,
        address,
      });
      const auth_url = `${deps.config.baseUrl ?? ''}${CLI_PATH}?state=${state}`;
      return { status: 200, body: { state, auth_url, expires_at: isoTime(expires) } };
    },

    async cliExchange({ body: { token, code_verifier: verifier }, requestUuid, address }) {
      const { key, record, workspace } = await exchange(deps, { token, verifier }, { requestUuid, address });
      return {
        status: 200,
        body: {
          org_id: workspace.id,
          org_slug: workspace.slug,
          org_name: workspace.name,
          api_key: key,
          api_key_prefix: record.prefix,
        },
        headers: { 'cache-control': 'no-store' },
      };
    },

    async cliLogout({ caller }) {
      const key = await findKeyOf(deps, caller.userId, caller.keyId);
      const revoked = key?.isOfSignIn === true && (await revokeKey(deps, caller.userId, caller.keyId));
      return { status: 200, body: { revoked } };
    },
  };
}

function pageHandlers(deps: SignInDeps): Pick<SignInHandlers, PageOperation> {
  const { config } = deps;
  const pathTo = (path: string): string => pathIn(config, path);
  const signInForm = { action: pathTo(SIGN_IN_PATH), provider: providerLinkOf(deps) };

  return {
    async showSignIn({ request }) {
      return answerPage(request, async () => {
        const viewer = await viewerOf(deps, request.headers);
        return viewer ? signedInPage(viewer.email, viewer.session.expiresAt) : signInPage(signInForm);
      });
    },

    async signIn({ request }) {
      return answerPage(
        request,
        async () => {
          refuseForeignPages(config, request.headers);
          const { credential = '' } = await readForm(request, MAX_FORM);
          const isOfKey = isKey(credential.trim()) || isServiceKey(credential.trim());
          const { key, to = '/' } = isOfKey
            ? { key: await byKey(deps, credential.trim()), to: undefined }
            : await byCode(deps, credential.trim());
          const { setCookie } = await beginSession(deps, request.headers, key);
          const { dashboardUrl } = config;
          const location = dashboardUrl === undefined ? signInForm.action : new URL(dashboardUrl).pathname + to;
          return { status: 303, headers: { 'set-cookie': setCookie, location } };
        },
        (problem) => signInPage({ ...signInForm, problem }),
      );
    },

    async getSignInScript() {
      const body = new TextEncoder().encode(SIGN_IN_SCRIPT);
      return { status: 200, body, headers: { ...PAGE_HEADERS, 'cache-control': 'no-cache' } };
    },

    async showCliSignIn({ request, query: { state }, address }) {
      return answerPage(request, async () => {
        const asked = await findRequest(deps, state);
        if (asked === undefined) throw goneRequest();
        return cliPage(await cliPageOf(request.headers, { state, asked, address }));
      });
    },

    async answerCliSignIn({ request, address }) {
      const form = await readForm(request, MAX_FORM);
      const { state = '', answer } = form;
      return answerPage(request, async () => {
        refuseForeignPages(config, request.headers);
        const asked = await findRequest(deps, state);
        if (asked === undefined) throw goneRequest();
        if (answer === 'refuse') {
          await refuseRequest(deps, state);
          return asked.redirectPort === undefined
            ? refusedPage()
            : backToCliPage(false, callbackOf(asked, { error: 'access_denied', state }));
        }
        if (answer !== 'agree') throw new PlatformError('INVALID_INPUT', 'answer: must be agree or refuse.');
        let key: ApiKey;
        try {
          key = await proven(deps, request.headers, form, state);
        } catch (error) {
          if (!isPlatformError(error) || !wantsHtml(request)) throw error;
          const shownPage = await cliPageOf(request.headers, { state, asked, address });
          return { status: httpStatusOf(error.code), content: cliPage({ ...shownPage, problem: error.message }) };
        }
        const token = await agree(deps, state, asked, key);
        return asked.redirectPort === undefined
          ? tokenPage(token)
          : backToCliPage(true, callbackOf(asked, { token, state }));
      });
    },
  };

  async function cliPageOf(
    headers: RequestHeaders,
    { state, asked: request, address }: { state: string; asked: CliRequest; address: string | undefined },
  ) {
    const viewer = await viewerOf(deps, headers);
    const session = viewer && { email: viewer.email, formToken: formTokenOf(viewer.token, state) };
    const provider = providerLinkOf(deps, `${pathTo(CLI_PATH)}?state=${state}`);
    return { action: pathTo(CLI_PATH), state, request, address, provider, session };
  }
}

const callbackOf = ({ redirectPort }: CliRequest, query: Record<string, string>): string =>
  `http://127.0.0.1:${redirectPort}/callback?${new URLSearchParams(query)}`;

/**
 * Token of a form, bound to this session: other pages do not know it, even if the browser adds the cookie to their
 * requests.
 */
const formTokenOf = (token: string, state: string): string => hashKey(`form ${token} ${state}`);

/** Returns the key of the user who approves: a pasted one, or the session's. Throws UNAUTHORIZED and FORBIDDEN. */
async function proven(
  deps: SignInDeps,
  headers: RequestHeaders,
  { api_key, form_token }: Record<string, string>,
  state: string,
): Promise<ApiKey> {
  if (form_token === undefined) return byKey(deps, (api_key ?? '').trim());
  const viewer = await viewerOf(deps, headers, ['same-origin']);
  if (viewer === undefined || form_token !== formTokenOf(viewer.token, state)) {
    throw new PlatformError('UNAUTHORIZED', 'The session has ended: sign in again, or paste an API key.');
  }
  return viewer.key;
}

/**
 * Returns the user signed in in this browser. Pages may also be opened from outside a page, such as by a link in a
 * terminal.
 */
async function viewerOf(deps: SignInDeps, headers: RequestHeaders, sites: readonly string[] = ['same-origin', 'none']) {
  const token = sessionCookieOf(deps.config, headers);
  if (token === undefined || !isFromOwnPage(deps.config, headers, sites)) return undefined;
  const session = await findSession(deps, token);
  const key = session && (await findKey(deps, session.keyHash));
  if (session === undefined || key === undefined) return undefined;
  checkUsable(deps, key);
  const user = await findUser(deps, session.userId);
  return { token, session, key, email: user?.email ?? '' };
}

/** Returns the session of a request. */
async function sessionOf(deps: SignInDeps, headers: RequestHeaders): Promise<Session | undefined> {
  const token = headers.has('authorization') ? undefined : sessionCookieOf(deps.config, headers);
  return token === undefined ? undefined : findSession(deps, token);
}

/** Returns a user's key. Throws UNAUTHORIZED, and FORBIDDEN for keys of agents, which cannot sign in. */
async function byKey(deps: SignInDeps, presented: string): Promise<ApiKey> {
  if (isServiceKey(presented)) {
    throw new PlatformError('FORBIDDEN', 'Service keys of agents cannot sign in; use the API key of a user.');
  }
  const key = isKey(presented) ? await findKey(deps, hashKey(presented)) : undefined;
  checkUsable(deps, key);
  return key;
}

async function byCode(deps: SignInDeps, code: string): Promise<{ key: ApiKey; to?: string }> {
  const taken = await takeCode(deps, code);
  if (taken === undefined) {
    throw new PlatformError('UNAUTHORIZED', 'The code is wrong, already used or expired: create another.');
  }
  checkUsable(deps, taken.key);
  return taken;
}

async function checkOwnKey(deps: SignInDeps, caller: Caller, keyId: string): Promise<void> {
  if ((await keysOf(deps, caller)).some(({ id }) => id === keyId)) return;
  throw new PlatformError('NOT_FOUND', `You have no API key with the id "${keyId.slice(0, 64)}".`);
}
