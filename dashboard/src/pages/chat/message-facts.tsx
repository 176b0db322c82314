import { useEffect, useRef, useState } from 'react';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import type { ChatMessage } from '../../chat/transport.ts';
import { Money } from '../../ui/data/numbers.tsx';
import { Link } from '../../ui/link.tsx';

/** Time for which an answer must be in view before its cost is asked for: nobody reads what is scrolled past. */
const IN_VIEW_MS = 300;

/** What an answer cost, which is read when it is in view, and its run. */
export function MessageFacts({ message: { run_id, agent_version } }: { readonly message: ChatMessage }) {
  const { id: workspace_id, slug: workspace } = useWorkspace();
  const box = useRef<HTMLSpanElement>(null);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const observer = new IntersectionObserver(([entry]) => {
      clearTimeout(timer);
      if (entry!.isIntersecting) timer = setTimeout(() => setSeen(true), IN_VIEW_MS);
    });
    observer.observe(box.current!);
    return () => {
      clearTimeout(timer);
      observer.disconnect();
    };
  }, []);
  const { data } = useOperation(
    'getRun',
    { params: { workspace_id, run_id }, query: { body: 'false' } },
    { enabled: isSeen, staleTime: Number.POSITIVE_INFINITY },
  );
  return (
    <span ref={box} className="flex flex-wrap items-center gap-x-2">
      {agent_version !== undefined && <span>{agent_version}</span>}
      {data?.cost_usd != null && <Money usd={data.cost_usd} />}
      <Link to="/$workspace/runs/$run" params={{ workspace, run: run_id }}>
        Open run
      </Link>
    </span>
  );
}
