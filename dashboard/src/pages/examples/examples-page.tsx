import gallery from 'virtual:gallery';
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { ArrowRight, Copy } from 'lucide-react';
import { useState } from 'react';
import { useAgents } from '../../api/agents.ts';
import { keyOf } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button, LinkButton } from '../../ui/button.tsx';
import { Badge } from '../../ui/data/status.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Page } from '../../ui/page.tsx';
import { ShownOnce } from '../../ui/shown-once.tsx';
import { publishExample } from './use-example.ts';

type Example = (typeof gallery)[number];

const KINDS: Readonly<Record<Example['kind'], string>> = {
  prompt: 'Prompt',
  program: 'Program',
  loop: 'Model with tools',
  orchestrator: 'Calls other agents',
  service: 'Service',
  skill: 'Skill',
};

/** The examples of the repository. One click publishes an example into the workspace and opens it. */
export function ExamplesPage() {
  const { rows: agents, error, refetch } = useAgents();
  const published = new Set(agents?.filter(({ runnable }) => runnable).map(({ name }) => name));
  const [used, setUsed] = useState<string>();
  return (
    <Page title="Examples" description="Publish a complete agent into this workspace, run it, and change it.">
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      <ul className="grid grid-cols-1 gap-3 md:grid-cols-2 xl:grid-cols-3" aria-label="Examples">
        {gallery.map((example) => (
          <Card
            key={example.name}
            example={example}
            isPublished={published.has(example.name)}
            isBlocked={used !== undefined && used !== example.name}
            onUse={setUsed}
          />
        ))}
      </ul>
    </Page>
  );
}

function Card({
  example: { name, summary, kind, features, needs, needs_model_key },
  isPublished,
  isBlocked,
  onUse,
}: {
  readonly example: Example;
  readonly isPublished: boolean;
  /** Whether another example is being published. */
  readonly isBlocked: boolean;
  readonly onUse: (name: string | undefined) => void;
}) {
  const workspace = useWorkspace();
  const { slug, role } = workspace;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [state, setState] = useState<{ readonly isPending?: boolean; readonly error?: unknown }>({});
  const [made, setMade] = useState<{ readonly key: string; readonly input: string | undefined }>();
  const open = (input: string | undefined) =>
    kind === 'service'
      ? navigate({ to: '/$workspace/services/new', params: { workspace: slug }, search: { agent: name } })
      : navigate({
          to: '/$workspace/agents/$name',
          params: { workspace: slug, name },
          state: input === undefined ? {} : { input },
        });
  const use = async () => {
    setState({ isPending: true });
    onUse(name);
    try {
      const { input, serviceKey } = await publishExample(name, workspace);
      setState({});
      if (serviceKey === undefined) await open(input);
      else setMade({ key: serviceKey, input });
    } catch (error) {
      setState({ error });
    } finally {
      onUse(undefined);
      // Also after an error, because an example that it needs may be published.
      await queries.invalidateQueries({ queryKey: keyOf('listAgents') });
    }
  };
  return (
    <li className="flex min-w-0 flex-col gap-2 rounded-lg border border-line bg-raised p-4">
      <div className="flex flex-wrap items-center gap-2">
        <h2 className="min-w-0 font-semibold break-words">{name}</h2>
        <Badge>{KINDS[kind]}</Badge>
        {isPublished && <Badge tone="good">Published</Badge>}
      </div>
      <p className="grow">{summary}</p>
      <p className="text-xs text-soft">{features.join(' · ')}</p>
      {needs.length > 0 && <p className="text-soft">Also publishes {needs.join(' and ')}.</p>}
      {needs_model_key && (
        <p className="text-soft">
          Needs a model key:{' '}
          <Link to="/$workspace/settings/secrets" params={{ workspace: slug }} className="underline">
            add it as a secret
          </Link>
          .
        </p>
      )}
      {state.error !== undefined && <ErrorBox error={state.error} />}
      <div>
        {isPublished && !state.isPending ? (
          <LinkButton
            icon={ArrowRight}
            to="/$workspace/agents/$name"
            params={{ workspace: slug, name }}
            aria-label={`Open ${name}`}
          >
            Open
          </LinkButton>
        ) : (
          <Button
            icon={Copy}
            onPress={() => void use()}
            isPending={state.isPending}
            isDisabled={isBlocked || role !== 'owner'}
            aria-label={`Use this: ${name}`}
          >
            Use this
          </Button>
        )}
      </div>
      {role !== 'owner' && !isPublished && <p className="text-soft">Only owners of {slug} can publish.</p>}
      {made && (
        <ShownOnce title={`Service key of ${name}`} text={made.key} onClose={() => void open(made.input)}>
          The agent uses this key to call its dependencies.
        </ShownOnce>
      )}
    </li>
  );
}
