import { useNavigate } from '@tanstack/react-router';
import { Ban, Columns2, Copy, Gauge, Pencil, Printer, RotateCw, Share2 } from 'lucide-react';
import { useState } from 'react';
import { type AnswerOf, call } from '../../api/client.ts';
import { useAction } from '../../api/query.ts';
import { isUnderWay } from '../../api/run-status.ts';
import { useWorkspace } from '../../api/session.ts';
import { API_URL, COMMAND } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { useCopy } from '../../ui/copy.tsx';
import { bytes } from '../../ui/data/numbers.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { TextField } from '../../ui/field.tsx';
import { useKeys } from '../../ui/keys.ts';
import { Menu } from '../../ui/menu.tsx';
import { SHOWN } from '../../ui/text/viewer.tsx';
import { toast } from '../../ui/toast.tsx';
import { CompareDialog } from './compare-dialog.tsx';
import { ScoreDialog } from './run-scores.tsx';
import { ShareDialog } from './share-dialog.tsx';

type Run = AnswerOf<'getRun'>;

/** Actions of a run: cancel, replay, and copy the equivalent command. */
export function RunActions({ run }: { readonly run: Run }) {
  const { id: workspace_id, slug } = useWorkspace();
  const navigate = useNavigate();
  const params = { workspace_id, run_id: run.id };
  const cancel = useAction('requestRunCancel', { stale: ['getRun', 'getRunWaterfall', 'listRuns'] });
  const replay = useAction('replayRun', { stale: ['listRuns'] });
  const [edited, setEdited] = useState<string>();
  const [isComparing, setComparing] = useState(false);
  const [isSharing, setSharing] = useState(false);
  const [isScoring, setScoring] = useState(false);
  const { isCopied, copy } = useCopy();
  const problem = edited === undefined ? undefined : problemOf(edited);
  const start = async (input?: unknown) => {
    const { run_id } = await replay.mutateAsync({ params, body: input === undefined ? {} : { input } } as never);
    setEdited(undefined);
    await navigate({ to: '/$workspace/runs/$run', params: { workspace: slug, run: run_id } });
  };
  const isRunning = isUnderWay(run.status);
  const cancelRun = () => cancel.mutate({ params });
  const replayRun = () => void start().catch(() => {});
  const edit = async () => {
    try {
      const { input_data } = await call('getRun', { params });
      const text = JSON.stringify(input_data, null, 2) ?? 'null';
      if (text.length <= SHOWN) return setEdited(text);
      toast({
        tone: 'bad',
        text: `The input has ${bytes(text.length)}: too large to edit here. Download it and send it from a terminal.`,
      });
    } catch (error) {
      toast({ tone: 'bad', error });
    }
  };
  useKeys({ c: isRunning ? cancelRun : undefined, e: () => void edit(), 'Shift+R': replayRun });
  const address = `${API_URL}/workspaces/${workspace_id}/runs/${run.id}`;
  const withKey = '-H "Authorization: Bearer $PLATFORM_API_KEY"';
  const texts = [
    ['Replay (curl)', `curl -s -X POST ${address}/replay ${withKey}`],
    ['Replay (CLI)', `${COMMAND} replay ${run.id}`],
    ['Show (curl)', `curl -s ${address} ${withKey}`],
    ['Show (CLI)', `${COMMAND} logs ${run.id}`],
    ['Run ID', run.id],
    ['Link', location.href],
  ] as const;
  return (
    <div className="flex flex-wrap items-center gap-2 print:hidden">
      {isRunning && (
        <Button variant="danger" icon={Ban} isPending={cancel.isPending} onPress={cancelRun}>
          Cancel run
        </Button>
      )}
      <Button icon={RotateCw} isPending={replay.isPending} onPress={replayRun}>
        Replay
      </Button>
      <Button icon={Pencil} onPress={() => void edit()}>
        Edit and replay
      </Button>
      <Button icon={Columns2} onPress={() => setComparing(true)}>
        Compare with…
      </Button>
      <Button icon={Gauge} onPress={() => setScoring(true)}>
        Score
      </Button>
      <Button icon={Share2} onPress={() => setSharing(true)}>
        Share
      </Button>
      <Button icon={Printer} onPress={() => print()}>
        Print
      </Button>
      <Menu label="Copy" entries={texts.map(([label, text]) => ({ id: label, label, run: () => copy(text) }))}>
        <Button icon={Copy}>{isCopied ? 'Copied' : 'Copy'}</Button>
      </Menu>
      {isSharing && <ShareDialog run={run} onClose={() => setSharing(false)} />}
      {isScoring && <ScoreDialog params={params} onClose={() => setScoring(false)} />}
      {isComparing && <CompareDialog run={run} onClose={() => setComparing(false)} />}
      <Dialog
        title="Edit and replay"
        size="large"
        isOpen={edited !== undefined}
        onClose={() => setEdited(undefined)}
        actions={
          <Button
            variant="primary"
            isDisabled={problem !== undefined}
            isPending={replay.isPending}
            onPress={() => void start(JSON.parse(edited!)).catch(() => {})}
          >
            Replay with this input
          </Button>
        }
      >
        <TextField label="Input" lines={16} isMono value={edited ?? ''} onChange={setEdited} error={problem} />
      </Dialog>
    </div>
  );
}

function problemOf(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return `The input is not valid JSON: ${(error as Error).message}`;
  }
}
