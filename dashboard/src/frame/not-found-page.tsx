import { Link } from '../ui/link.tsx';
import { Page } from '../ui/page.tsx';

export function NotFoundPage() {
  return (
    <Page title="Page not found">
      <p>
        This page does not exist. <Link to="/">Go home</Link>
      </p>
    </Page>
  );
}
