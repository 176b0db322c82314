import { type QueryClient, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate, useRouter } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { call } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { workspacesQuery } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { useTitle } from '../../ui/page.tsx';
import { CodeBlock } from '../../ui/text/code.tsx';

/** Returns the one-time code of a link from the fragment, which browsers never send. */
function codeInAddress(): string | undefined {
  return new URLSearchParams(location.hash.slice(1)).get('code') ?? undefined;
}

/** Returns the user's only workspace, or the page of all workspaces. */
async function firstPage(queries: QueryClient) {
  const { workspaces } = await queries.fetchQuery(workspacesQuery);
  return workspaces.length === 1
    ? ({ to: '/$workspace', params: { workspace: workspaces[0]!.slug } } as const)
    : ({ to: '/' } as const);
}

/** Signs in with a link's code or an API key. The key is not stored: the platform responds with a cookie. */
export function LoginPage() {
  const [key, setKey] = useState('');
  const [state, setState] = useState<{
    readonly isPending?: boolean;
    readonly error?: unknown;
    readonly isLink?: boolean;
  }>({});
  const { to } = getRouteApi('/login').useSearch();
  const navigate = useNavigate();
  const router = useRouter();
  const queries = useQueryClient();
  const hasTried = useRef(false);
  useTitle('Sign in');

  const signIn = async (body: { code: string } | { api_key: string }) => {
    setState({ isPending: true });
    try {
      const { show } = await call('createSession', { body });
      queries.clear();
      // Only paths of the dashboard are allowed, because the value may come from a link.
      const target = show ?? to;
      if (target?.startsWith('/') && !target.startsWith('//'))
        router.history.replace(router.basepath.replace(/\/$/, '') + target);
      else await navigate({ ...(await firstPage(queries)), replace: true });
    } catch (error) {
      setState({ error, isLink: 'code' in body });
    }
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when the page opens.
  useEffect(() => {
    const code = codeInAddress();
    if (code === undefined || hasTried.current) return;
    hasTried.current = true;
    // The code works once, so a reload must not try it again.
    history.replaceState(history.state, '', location.pathname + location.search);
    void signIn({ code });
  }, []);

  return (
    <main className="mx-auto flex min-h-dvh w-full max-w-md flex-col justify-center gap-4 px-4 py-8">
      <h1 className="text-xl font-semibold">Sign in to Agent Platform</h1>
      {state.error !== undefined && (
        <ErrorBox error={state.error} title={state.isLink ? 'This sign-in link is not valid' : undefined} />
      )}
      <Provider to={to} />
      <form
        className="flex flex-col gap-3 rounded-lg border border-line bg-raised p-4"
        onSubmit={(event) => {
          event.preventDefault();
          if (key.trim() !== '') void signIn({ api_key: key.trim() });
        }}
      >
        <TextField
          label="API key"
          type="password"
          autoComplete="off"
          autoFocus
          isMono
          value={key}
          onChange={setKey}
          placeholder="sk_live_…"
          description="You stay signed in for up to 7 days. The key is not stored."
        />
        <Button type="submit" variant="primary" isPending={state.isPending} isDisabled={key.trim() === ''}>
          Sign in
        </Button>
      </form>
      <div className="flex flex-col gap-2 text-soft">
        <p>Or create a one-time sign-in link on a machine where the command line is signed in:</p>
        <CodeBlock text={`${COMMAND} open`} />
      </div>
    </main>
  );
}

/** Sign-in through the platform's OpenID provider, if configured. */
function Provider({ to }: { readonly to: string | undefined }) {
  const { data } = useOperation('getSignInOptions', {});
  const { basepath } = useRouter();
  if (!data?.oidc) return null;
  const { name, path } = data.oidc;
  const query = new URLSearchParams({ to: basepath.replace(/\/$/, '') + (to ?? '/') });
  return (
    <a href={`${path}?${query}`} className={buttonClass('primary')}>
      Continue with {name}
    </a>
  );
}
