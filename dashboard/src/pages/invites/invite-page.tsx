import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type AnswerOf, call } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { ApiError } from '../../api-error.ts';
import { Button } from '../../ui/button.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { useTitle } from '../../ui/page.tsx';
import { ShownOnce } from '../../ui/shown-once.tsx';

type Invite = AnswerOf<'getInvite'>['invite'];

/** The signed-in user, or null. This page works without a session, so a 401 must not redirect to the sign-in page. */
const useVisitor = () =>
  useQuery({
    queryKey: ['visitor'],
    queryFn: ({ signal }) =>
      call('getSession', {}, { signal }).catch((error: unknown) => {
        if (error instanceof ApiError && error.status === 401) return null;
        throw error;
      }),
  });

/** Page of an invitation link. A user joins the workspace; a visitor without an account creates one. */
export function InvitePage() {
  const { token } = getRouteApi('/invites/$token').useParams();
  const found = useOperation('getInvite', { params: { token } });
  const visitor = useVisitor();
  const invite = found.data?.invite;
  const error = found.error ?? visitor.error;
  useTitle('Invitation');
  return (
    <main className="mx-auto flex min-h-dvh w-full max-w-md flex-col justify-center gap-4 px-4 py-8">
      <h1 className="text-xl font-semibold">
        {invite ? `Join ${invite.workspace.name}` : 'Invitation to a workspace'}
      </h1>
      {error && <ErrorBox error={error} />}
      {!error && (!invite || visitor.data === undefined) && <Loading />}
      {invite && visitor.data !== undefined && (
        <>
          <p className="text-soft">
            {invite.email} is invited as {invite.role === 'owner' ? 'an owner' : 'a member'}. The invitation expires{' '}
            <Time at={invite.expires_at} />.
          </p>
          {visitor.data ? (
            <Accept token={token} invite={invite} user={visitor.data.user} />
          ) : (
            <Join token={token} invite={invite} />
          )}
        </>
      )}
    </main>
  );
}

const BOX = 'flex flex-col gap-3 rounded-lg border border-line bg-raised p-4';

function Accept({
  token,
  invite,
  user,
}: {
  readonly token: string;
  readonly invite: Invite;
  readonly user: AnswerOf<'getSession'>['user'];
}) {
  const accept = useAction('acceptInvite', { stale: ['listWorkspaces'], silent: true });
  const navigate = useNavigate();
  const submit = async () => {
    try {
      const { workspace } = await accept.mutateAsync({ params: { token } });
      await navigate({ to: '/$workspace', params: { workspace: workspace.slug } });
    } catch {
      // `accept.error` holds the reason.
    }
  };
  return (
    <div className={BOX}>
      {accept.error && <ErrorBox error={accept.error} />}
      <p>
        You are signed in as <strong>{user.display_name || user.email}</strong>.
      </p>
      <Button variant="primary" onPress={submit} isPending={accept.isPending}>
        {`Join ${invite.workspace.name}`}
      </Button>
    </div>
  );
}

function Join({ token, invite }: { readonly token: string; readonly invite: Invite }) {
  const [name, setName] = useState('');
  const [made, setMade] = useState<{ readonly key: string; readonly workspace: string }>();
  const join = useAction('joinByInvite', { silent: true });
  const navigate = useNavigate();
  const queries = useQueryClient();
  const submit = async () => {
    try {
      const { api_key, workspace } = await join.mutateAsync({
        params: { token },
        body: { ...(name.trim() !== '' && { name: name.trim() }) },
      });
      join.reset();
      // Shows the key before anything else, because it cannot be shown again.
      setMade({ key: api_key, workspace: workspace.slug });
    } catch {
      // `join.error` holds the reason.
    }
  };
  const enter = async ({ key, workspace }: { readonly key: string; readonly workspace: string }) => {
    try {
      await call('createSession', { body: { api_key: key } });
      queries.clear();
      await navigate({ to: '/$workspace', params: { workspace } });
    } catch {
      // The user signs in with the copied key; the sign-in page shows any error.
      await navigate({ to: '/login', search: { to: `/${workspace}` } });
    }
  };
  return (
    <>
      <form
        className={BOX}
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {join.error && <ErrorBox error={join.error} />}
        <TextField
          label="Your name"
          value={name}
          onChange={setName}
          autoFocus
          autoComplete="name"
          placeholder={invite.email.split('@')[0]!}
        />
        <Button type="submit" variant="primary" isPending={join.isPending}>
          {`Join ${invite.workspace.name}`}
        </Button>
      </form>
      <p className="text-soft">
        Already have an account?{' '}
        <Link to="/login" className="underline" search={{ to: `/invites/${token}` }}>
          Sign in
        </Link>
      </p>
      {made && (
        <ShownOnce title="Your API key" text={made.key} onClose={() => void enter(made)}>
          <p>You are now a member. Use this key to sign in again, here and on the command line.</p>
        </ShownOnce>
      )}
    </>
  );
}
