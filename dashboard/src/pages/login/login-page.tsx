import { type QueryClient, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate, useRouter } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { call } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { workspacesQuery } from '../../api/session.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { useTitle } from '../../ui/page.tsx';
import { CodeBlock } from '../../ui/text/code.tsx';

/** The one-time code of a link; it is in the fragment, which browsers never send. */
function codeInAddress(): string | undefined {
  return new URLSearchParams(location.hash.slice(1)).get('code') ?? undefined;
}

/** Whoever has one workspace goes to it, others to a page of all of them. */
async function firstPage(queries: QueryClient) {
  const { workspaces } = await queries.fetchQuery(workspacesQuery);
  return workspaces.length === 1
    ? ({ to: '/$workspace', params: { workspace: workspaces[0]!.slug } } as const)
    : ({ to: '/' } as const);
}

/** Signs in with the code of a link, or with an API key. The key is not kept: the platform answers with a cookie. */
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
      // A path of the dashboard alone: it may come from a link.
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
    // It works once; a page that is reloaded must not try it again.
    history.replaceState(history.state, '', location.pathname + location.search);
    void signIn({ code });
  }, []);

  return (
    <main className="mx-auto flex min-h-dvh w-full max-w-md flex-col justify-center gap-4 px-4 py-8">
      <h1 className="text-xl font-semibold">Sign in to Agent Platform</h1>
      {state.error !== undefined && (
        <ErrorBox error={state.error} title={state.isLink ? 'This link does not sign in' : undefined} />
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
          description="The browser gets a session of the key, for 7 days at most. The key itself is not kept here."
        />
        <Button type="submit" variant="primary" isPending={state.isPending} isDisabled={key.trim() === ''}>
          Sign in
        </Button>
      </form>
      <div className="flex flex-col gap-2 text-soft">
        <p>Or, on a machine whose command line is signed in, get a link that signs you in once:</p>
        <CodeBlock text="npx platform open" />
      </div>
    </main>
  );
}

/** The way by the OpenID provider of the platform, where it has one. */
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
