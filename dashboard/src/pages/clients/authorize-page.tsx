import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { useTitle } from '../../ui/page.tsx';
import { Code } from '../../ui/text/code.tsx';

type Asked = AnswerOf<'getClientRequest'>;
type Scope = Asked['scope'];

const SCOPES: Readonly<Record<Scope, { readonly label: string; readonly description: string }>> = {
  read: { label: 'Read', description: 'See agents, runs and what they store; change nothing' },
  run: { label: 'Run', description: 'Also run agents, which costs money, and cancel runs' },
  manage: { label: 'Manage', description: 'Everything that you may do in the workspace, such as publish and delete' },
};

/** On this page a user lets a client in. The cookie and the header of the dashboard protect the answer. */
export function AuthorizePage() {
  const { request = '' } = getRouteApi('/authorize').useSearch();
  const asked = useOperation('getClientRequest', { params: { request } }, { staleTime: Number.POSITIVE_INFINITY });
  const who = useOperation('getSession', {});
  useTitle('Connect a client');
  const error = asked.error ?? who.error;
  return (
    <main className="mx-auto flex min-h-dvh w-full max-w-md flex-col justify-center gap-4 px-4 py-8">
      <h1 className="text-xl font-semibold">
        {asked.data ? `Connect a client from ${asked.data.client_host}?` : 'Connect a client'}
      </h1>
      {error && <ErrorBox error={error} />}
      {!error && (!asked.data || !who.data) && <Loading />}
      {asked.data && who.data && <Question request={request} asked={asked.data} user={who.data.user} />}
    </main>
  );
}

function Question({
  request,
  asked,
  user,
}: {
  readonly request: string;
  readonly asked: Asked;
  readonly user: AnswerOf<'getSession'>['user'];
}) {
  const [workspace, setWorkspace] = useState(asked.workspaces[0]?.id ?? '');
  const [scope, setScope] = useState<string>(asked.scopes.at(-1)!);
  const [isDone, setDone] = useState(false);
  const answer = useAction('answerClientRequest', { stale: ['listConnectedClients'], silent: true });
  const submit = async (body: Parameters<typeof answer.mutateAsync>[0]['body']) => {
    try {
      const { redirect_to } = await answer.mutateAsync({ params: { request }, body });
      setDone(true);
      location.assign(redirect_to);
    } catch {
      // `answer.error` holds the reason.
    }
  };
  if (isDone) return <p role="status">The client has your answer. You can close this page.</p>;
  const rows = [
    [
      'Client',
      <>
        {asked.client_name} <span className="text-soft">(its own name)</span>
      </>,
    ],
    ['Described at', <Code key="id">{asked.client_id}</Code>],
    ['You return to', asked.is_local ? `a program on this machine (${asked.redirect_host})` : asked.redirect_host],
    ['Access to', <Code key="resource">{asked.resource}</Code>],
    ['As', user.display_name || user.email],
  ] as const;
  return (
    <div className="flex flex-col gap-4 rounded-lg border border-line bg-raised p-4">
      <p>Allow this only if you started it yourself, just now.</p>
      <dl className="flex flex-col gap-2">
        {rows.map(([term, text]) => (
          <div key={term}>
            <dt className="text-soft">{term}</dt>
            <dd className="break-all">{text}</dd>
          </div>
        ))}
      </dl>
      <Select
        label="Workspace"
        choices={asked.workspaces.map(({ id, name, slug }) => ({ id, label: name, description: slug }))}
        value={workspace}
        onChange={setWorkspace}
      />
      <Select
        label="What it may do"
        choices={asked.scopes.map((id) => ({ id, ...SCOPES[id] }))}
        value={scope}
        onChange={setScope}
      />
      <p className="text-soft">{SCOPES[scope as Scope].description}. You can disconnect it in the settings.</p>
      {answer.error && <ErrorBox error={answer.error} />}
      <div className="flex gap-2">
        <Button
          variant="primary"
          isPending={answer.isPending}
          isDisabled={workspace === ''}
          onPress={() => submit({ answer: 'allow', workspace_id: workspace, scope: scope as Scope })}
        >
          Allow
        </Button>
        <Button isDisabled={answer.isPending} onPress={() => submit({ answer: 'deny' })}>
          Deny
        </Button>
      </div>
    </div>
  );
}
