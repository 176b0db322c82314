import { useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useBlocker } from '@tanstack/react-router';
import { Trash2 } from 'lucide-react';
import { lazy, Suspense, useDeferredValue, useEffect, useRef, useState } from 'react';
import { type AnswerOf, call } from '../../api/client.ts';
import { keyOf, useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { ApiError, isNotFound } from '../../api-error.ts';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { DocumentFacts } from '../../ui/document-facts.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { useKeys } from '../../ui/keys.ts';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page, Section } from '../../ui/page.tsx';
import { DiffView } from '../../ui/text/diff.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { toast } from '../../ui/toast.tsx';

const Editor = lazy(() => import('../../ui/text/editor.tsx'));

type Stored = AnswerOf<'getDocument'>;

const route = getRouteApi('/signed-in/$workspace/storage/$namespace/$key');
/** Polling interval, because document writes emit no event. */
const EVERY_MS = 10_000;
const STALE = ['getDocument', 'listDocuments', 'listNamespaces'] as const;

const textOf = (value: unknown): string => JSON.stringify(value, null, 2);

/** A document with a JSON editor. With `new` in the URL, the document need not exist yet. */
export function DocumentPage() {
  const { slug } = useWorkspace();
  const { namespace, key } = route.useParams();
  const { new: isNew } = route.useSearch();
  const params = { namespace, key };
  const { data, error, refetch } = useOperation(
    'getDocument',
    { params },
    { refetchInterval: EVERY_MS, refetchOnMount: 'always' },
  );
  // The cache still contains a deleted document.
  const stored = isNotFound(error) ? null : data;
  const canMake = stored === null && isNew !== undefined;
  const wasThere = useRef(false);
  wasThere.current ||= stored != null;
  const isShown = stored != null || canMake || (stored === null && wasThere.current);
  return (
    <Page
      title={key}
      description={
        <Link to="/$workspace/storage/$namespace" params={{ workspace: slug, namespace }}>
          {namespace}
        </Link>
      }
    >
      {error && !(isShown && isNotFound(error)) && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {stored === undefined && !error && <Loading />}
      {isShown && <DocumentEditor key={`${namespace} ${key}`} params={params} stored={stored ?? null} />}
    </Page>
  );
}

interface EditorProps {
  readonly params: { readonly namespace: string; readonly key: string };
  /** Stored version; null if the document does not exist. */
  readonly stored: Stored | null;
}

function DocumentEditor({ params, stored }: EditorProps) {
  const { id: workspaceId, slug } = useWorkspace();
  const navigate = route.useNavigate();
  /** Version that the edit is based on; 0 if none. */
  const [base, setBase] = useState(() => baseOf(stored));
  const [text, setText] = useState(base.text);
  /** Concurrent version; null if the document was deleted. */
  const [theirs, setTheirs] = useState<Stored | null>();
  const [isDeleting, setDeleting] = useState(false);
  const put = useAction('putDocument', { stale: STALE, silent: true });
  const remove = useAction('deleteDocument', { stale: ['listDocuments', 'listNamespaces'], silent: true });
  const client = useQueryClient();
  const isLeaving = useRef(false);
  const isChanged = text !== base.text || base.version === 0;
  const isEdited = text !== base.text;
  const isOld = (stored?.version ?? 0) !== base.version;
  useEffect(() => {
    // Without local edits, the newer version can replace the text.
    if (isOld && !isEdited && stored !== null && theirs === undefined) {
      const next = baseOf(stored);
      setBase(next);
      setText(next.text);
    }
  }, [isOld, isEdited, stored, theirs]);
  useBlocker({
    shouldBlockFn: () => isEdited && !isLeaving.current && !window.confirm('Leave without saving the document?'),
    enableBeforeUnload: isEdited,
  });

  // During our own write or delete, a changed stored version is not a conflict.
  const isNoted = theirs === undefined && isOld && (isEdited || stored === null) && !put.isPending && remove.isIdle;
  const problem = problemOf(text);
  const save = async (over: number) => {
    if (problem !== undefined || put.isPending) return;
    const headers = { 'if-match': String(over), 'content-type': 'application/json' };
    // Sends the text unchanged, because parsing it could lose precision of numbers.
    const body = new Blob([text]);
    try {
      const written = await put.mutateAsync({ params, headers, body } as never);
      setBase({ version: written.version, text });
      setTheirs(undefined);
      toast({ tone: 'good', text: `Version ${written.version} saved.` });
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 'CONFLICT')) return;
      put.reset();
      await compare();
    }
  };
  const compare = () =>
    call('getDocument', { params }, { workspaceId }).then(setTheirs, (error) => {
      if (isNotFound(error)) setTheirs(null);
      else toast({ tone: 'bad', error });
    });
  const takeTheirs = () => {
    const next = baseOf(theirs ?? null);
    setBase(next);
    setText(next.text);
    setTheirs(undefined);
  };
  const submit = () => void save(theirs === undefined ? base.version : (theirs?.version ?? 0));
  useKeys({ 'Mod+Enter': isChanged ? submit : undefined, 'Mod+s': isChanged ? submit : undefined });

  const mine = (
    <Suspense fallback={<Loading />}>
      <Editor label={theirs === undefined ? 'Value of the document' : 'Mine'} value={text} onChange={setText} />
    </Suspense>
  );
  return (
    <>
      {stored !== null && <DocumentFacts document={stored} />}
      {isNoted && (
        <div role="note" className="flex flex-wrap items-center gap-3 rounded-lg border border-line bg-warn-ground p-3">
          <p className="grow">
            {stored === null
              ? 'The document was deleted while you edited it.'
              : `Version ${stored.version} was written by ${escapeText(stored.updated_by)} while you edited version ${base.version}.`}
          </p>
          <Button onPress={() => void compare()}>Compare</Button>
        </div>
      )}
      {theirs === undefined && mine}
      {theirs !== undefined && (
        <>
          <div role="alert" className="rounded-lg border border-line bg-warn-ground p-3">
            <p className="font-medium">
              {theirs === null
                ? 'The document was deleted while you edited it. Your changes are not saved yet.'
                : `Version ${theirs.version} was written by ${escapeText(theirs.updated_by)} while you edited version ${base.version}. Your changes are not saved yet.`}
            </p>
            <p>Take what you need from theirs into mine, then write mine; or drop yours.</p>
          </div>
          <div className="grid items-start gap-4 lg:grid-cols-2">
            <Section title="Theirs" isFramed={false} actions={<Button onPress={takeTheirs}>Use theirs</Button>}>
              {theirs === null ? (
                <p className="text-soft">This document does not exist.</p>
              ) : (
                <Suspense fallback={<Loading />}>
                  <Editor label="Theirs" value={textOf(theirs.value)} />
                </Suspense>
              )}
            </Section>
            <Section
              title="Mine"
              isFramed={false}
              actions={
                <Button variant="primary" onPress={submit} isPending={put.isPending} isDisabled={problem !== undefined}>
                  {theirs === null ? 'Save mine' : `Overwrite version ${theirs.version} with mine`}
                </Button>
              }
            >
              {mine}
            </Section>
          </div>
          {theirs !== null && <Difference theirs={textOf(theirs.value)} mine={text} />}
        </>
      )}
      {isEdited && problem && <p className="text-bad">{problem}</p>}
      {put.error && <ErrorBox error={put.error} />}
      <div className="flex flex-wrap justify-end gap-2">
        {stored !== null && (
          <Button variant="danger" icon={Trash2} onPress={() => setDeleting(true)}>
            Delete document
          </Button>
        )}
        {theirs === undefined && (
          <>
            {isEdited && <Button onPress={() => setText(base.text)}>Discard changes</Button>}
            <Button
              variant="primary"
              onPress={submit}
              isPending={put.isPending}
              isDisabled={!isChanged || problem !== undefined}
            >
              {base.version === 0 ? 'Create document' : 'Save'}
            </Button>
          </>
        )}
      </div>
      <ConfirmDialog
        title={`Delete ${params.key}?`}
        isOpen={isDeleting}
        onClose={() => setDeleting(false)}
        action="Delete document"
        onConfirm={async () => {
          await remove.mutateAsync({ params });
          isLeaving.current = true;
          await navigate({
            to: '/$workspace/storage/$namespace',
            params: { workspace: slug, namespace: params.namespace },
          });
          client.removeQueries({ queryKey: keyOf('getDocument') });
        }}
      >
        Agents can no longer read it. This cannot be undone.
      </ConfirmDialog>
    </>
  );
}

/** Diff from the stored version to the edit, once the edit is valid JSON. */
function Difference({ theirs, mine }: { readonly theirs: string; readonly mine: string }) {
  const text = useDeferredValue(mine);
  if (problemOf(text) !== undefined) return null;
  return (
    <Section title="Your changes to the saved version" isFramed={false}>
      <DiffView label="Your changes to the saved version" before={theirs} after={textOf(JSON.parse(text))} />
    </Section>
  );
}

const baseOf = (stored: Stored | null) =>
  stored === null ? { version: 0, text: '{}' } : { version: stored.version, text: textOf(stored.value) };

function problemOf(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? undefined : 'It must be a JSON object or array.';
  } catch (error) {
    return `This is not valid JSON: ${(error as Error).message}`;
  }
}
