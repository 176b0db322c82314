import { getRouteApi, useBlocker } from '@tanstack/react-router';
import { Trash2 } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { ApiError, isNotFound } from '../../api-error.ts';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { DocumentFacts } from '../../ui/document-facts.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { useKeys } from '../../ui/keys.ts';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { toast } from '../../ui/toast.tsx';

type Remembered = AnswerOf<'getMemory'>;

const route = getRouteApi('/signed-in/$workspace/memory/$name');
const STALE = ['getMemory', 'listMemory', 'listMemoryTenants'] as const;

/** A text that agents remember, with an editor. With `new` in the URL, the document need not exist yet. */
export function MemoryDocumentPage() {
  const { id: workspace_id, slug } = useWorkspace();
  const { name } = route.useParams();
  const { tenant, new: isNew } = route.useSearch();
  const args = { params: { workspace_id, document: name }, query: { tenant_id: tenant } };
  const { data, error, refetch } = useOperation('getMemory', args, { refetchOnMount: 'always' });
  const isMissing = isNotFound(error);
  const isShown = isMissing ? isNew !== undefined : data !== undefined;
  return (
    <Page
      title={name}
      description={
        <Link to="/$workspace/memory" params={{ workspace: slug }} search={{ tenant }}>
          {tenant === undefined ? 'Memory of the workspace' : `Memory of the tenant ${escapeText(tenant)}`}
        </Link>
      }
    >
      {error && !(isMissing && isShown) && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <Loading />}
      {isShown && <MemoryEditor key={`${tenant} ${name}`} args={args} stored={isMissing ? undefined : data} />}
    </Page>
  );
}

interface EditorProps {
  readonly args: {
    readonly params: { readonly workspace_id: string; readonly document: string };
    readonly query: { readonly tenant_id: string | undefined };
  };
  /** Absent if the document does not exist. */
  readonly stored: Remembered | undefined;
}

function MemoryEditor({ args, stored }: EditorProps) {
  const { slug } = useWorkspace();
  const navigate = route.useNavigate();
  /** Version that the edit is based on. */
  const [base, setBase] = useState({ version: stored?.version ?? 0, text: stored?.text ?? '' });
  const [text, setText] = useState(base.text);
  const [isDeleting, setDeleting] = useState(false);
  const put = useAction('putMemory', { stale: STALE, silent: true });
  const remove = useAction('deleteMemory', { stale: ['listMemory', 'listMemoryTenants'], silent: true });
  const isLeaving = useRef(false);
  const isEdited = text !== base.text;
  const isChanged = isEdited || base.version === 0;
  const isOld = (stored?.version ?? 0) !== base.version && !put.isPending;
  const takeStored = () => {
    const next = { version: stored?.version ?? 0, text: stored?.text ?? '' };
    setBase(next);
    setText(next.text);
    put.reset();
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: without local edits, a newer version replaces the text.
  useEffect(() => {
    if (isOld && !isEdited && stored !== undefined) takeStored();
  }, [isOld, isEdited, stored]);
  useBlocker({
    shouldBlockFn: () => isEdited && !isLeaving.current && !window.confirm('Leave without saving the document?'),
    enableBeforeUnload: isEdited,
  });
  const save = async () => {
    if (!isChanged || put.isPending) return;
    try {
      const written = await put.mutateAsync({ ...args, body: { text, if_version: base.version } });
      setBase({ version: written.version, text });
      toast({ tone: 'good', text: `Version ${written.version} saved.` });
    } catch {
      // `ErrorBox` shows it.
    }
  };
  const isConflict = put.error instanceof ApiError && put.error.code === 'CONFLICT';
  useKeys({
    'Mod+Enter': isChanged ? () => void save() : undefined,
    'Mod+s': isChanged ? () => void save() : undefined,
  });
  return (
    <>
      {stored !== undefined && <DocumentFacts document={stored} />}
      <TextField label="Text" isLabelHidden isMono lines={24} value={text} onChange={setText} />
      {put.error && <ErrorBox error={put.error} />}
      {(isConflict || (isOld && isEdited)) && (
        <div role="note" className="flex flex-wrap items-center gap-3 rounded-lg border border-line bg-warn-ground p-3">
          <p className="grow">The document was changed while you edited it. Your text is not saved.</p>
          <Button onPress={takeStored}>Drop mine and show the newer version</Button>
        </div>
      )}
      <div className="flex flex-wrap justify-end gap-2">
        {stored !== undefined && (
          <Button variant="danger" icon={Trash2} onPress={() => setDeleting(true)}>
            Delete document
          </Button>
        )}
        {isEdited && <Button onPress={() => setText(base.text)}>Discard changes</Button>}
        <Button variant="primary" onPress={() => void save()} isPending={put.isPending} isDisabled={!isChanged}>
          {base.version === 0 ? 'Create document' : 'Save'}
        </Button>
      </div>
      <ConfirmDialog
        title={`Delete ${args.params.document}?`}
        isOpen={isDeleting}
        onClose={() => setDeleting(false)}
        action="Delete document"
        onConfirm={async () => {
          await remove.mutateAsync(args);
          isLeaving.current = true;
          await navigate({
            to: '/$workspace/memory',
            params: { workspace: slug },
            search: { tenant: args.query.tenant_id },
          });
        }}
      >
        Agents no longer remember it. This cannot be undone.
      </ConfirmDialog>
    </>
  );
}
