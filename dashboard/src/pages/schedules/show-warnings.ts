import { escapeText } from '../../ui/text/viewer.tsx';
import { toast } from '../../ui/toast.tsx';

/** Shows what the answer about a schedule warns of, until it is closed. */
export function showWarnings(warnings: readonly string[]): void {
  for (const warning of warnings) toast({ tone: 'bad', text: escapeText(warning) });
}
