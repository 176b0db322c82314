import { CopyButton } from './copy.tsx';
import { Time } from './data/time.tsx';

/** A secret link that was created just now, which no later answer of the API shows. */
export function NewLink({ url, expires_at }: { readonly url: string; readonly expires_at: string }) {
  return (
    <section aria-label="New link" className="flex flex-col gap-2 rounded-lg border border-line bg-panel p-3">
      <p>
        The link expires <Time at={expires_at} />. Copy it now: it is not shown again.
      </p>
      <code className="text-xs break-all select-all">{url}</code>
      <div>
        <CopyButton text={url} label="Copy link" variant="primary" />
      </div>
    </section>
  );
}
