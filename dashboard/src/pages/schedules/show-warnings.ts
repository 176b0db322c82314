import { toast } from '../../ui/toast.tsx';
import { harmless } from '../../ui/viewer.tsx';

/** Shows what the answer about a schedule warns of, until it is closed. */
export function showWarnings(warnings: readonly string[]): void {
  for (const warning of warnings) toast({ tone: 'bad', text: harmless(warning) });
}
